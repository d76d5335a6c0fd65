// A client of AG-UI: node agui_client.mjs MODULES URL JSON, where JSON has the prompts of a thread and answers to calls.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, url, script] = process.argv.slice(2);
const { HttpAgent } = await import(pathToFileURL(createRequire(`${modules}/x.js`).resolve("@ag-ui/client")));
const agent = new HttpAgent({ url, threadId: "t1" });
const turns = [];

for (const step of JSON.parse(script)) {
  const events = [];
  let failure = "";
  if (step.prompt) agent.addMessage({ id: `u${turns.length}`, role: "user", content: step.prompt });
  const resume = step.answer && (turns.at(-1).interrupts ?? []).map(({ id }) => ({ interruptId: id, ...step.answer }));
  const parameters = { runId: `r${turns.length}`, ...(resume && { resume }) };
  try {
    await agent.runAgent(parameters, { onEvent: ({ event }) => void events.push(event) });
  } catch (error) {
    failure = `${error}`;
  }
  const interrupts = events.at(-1)?.outcome?.interrupts;
  turns.push({ events, failure, interrupts, messages: structuredClone(agent.messages) });
}
console.log(JSON.stringify(turns));
