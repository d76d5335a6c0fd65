// An agent in another language, by plain HTTP and server-sent events: no packages, Node 18 or later.
//
//   sagent serve --output-format json       prints {"url": ..., "token": ...}
//   SAGENT_URL=... SAGENT_TOKEN=... node examples/mesh/agent.mjs
//   (a program, or `curl`, then sends to game.pong and desk.words)
//
// It plays ping-pong at game.pong. At desk.words it counts words with a tool, and says what it does while it does it.

const { SAGENT_URL: url, SAGENT_TOKEN: token, PAUSE: pause = "0" } = process.env;

async function call(method, path, body) {
  for (;;) {
    try {
      const answer = await fetch(`${url}/v1/bus${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      if (answer.status < 500) return answer;
    } catch {
      // the server is away: the request may be repeated, for frames carry their number
    }
    await new Promise((done) => setTimeout(done, 500));
  }
}

// The events of a stream, taken up after the last one when the connection is lost.
async function* events(path) {
  for (let last = ""; ; ) {
    try {
      const headers = { authorization: `Bearer ${token}`, ...(last && { "last-event-id": last }) };
      const answer = await fetch(`${url}/v1/bus${path}`, { headers });
      if (answer.status === 401) throw new Error("the token is wrong");
      let text = "";
      for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
        const blocks = (text + piece).split("\n\n");
        text = blocks.pop();
        for (const block of blocks) {
          const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s).slice(0, 2)));
          last = fields.id ?? last;
          if (fields.data) yield { name: fields.event, ...JSON.parse(fields.data) };
        }
      }
    } catch (error) {
      if (error.message === "the token is wrong") throw error;
    }
    await new Promise((done) => setTimeout(done, 500));
  }
}

// Receives at an address: one message at a time; `handle` returns the reply, `emit` sends a frame before it.
async function serve(card, handle) {
  await call("PUT", `/cards/${card.address}`, card);
  setInterval(() => call("PUT", `/cards/${card.address}`, card), 5000);
  for await (const event of events(`/inbox/${card.address}`)) {
    if (event.name !== "message") continue;
    const path = `/deliveries/${event.delivery}`;
    let number = 0;
    const emit = (body) => call("POST", `${path}/frames`, { body, number: ++number });
    try {
      await call("POST", `${path}/reply`, { body: await handle(event.message.body, emit) });
    } catch (error) {
      await call("POST", `${path}/failure`, { message: error.message, kind: "failed" });
    }
  }
}

const tools = { count_words: ({ text }) => text.split(/\s+/).filter(Boolean).length };

serve({ address: "game.pong", description: "Answers with the next number." }, (count) => count + 1);
serve({ address: "desk.words", description: "Counts words.", tools: Object.keys(tools) }, async (body, emit) => {
  if (typeof body?.text !== "string") throw new Error("Give a text.");
  await emit({ tool: "count_words", arguments: body });
  const count = tools.count_words(body);
  for (const word of ["There ", "are ", `${count} `, "words."]) {
    await emit({ text: word });
    await new Promise((done) => setTimeout(done, Number(pause)));
  }
  return { text: `There are ${count} words.`, count };
});
console.log("ready");
