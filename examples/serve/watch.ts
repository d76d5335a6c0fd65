// A program that uses a server of sessions: begins one, follows its events, and answers what the agent may not decide.
//
//   sagent serve --output-format json      (prints url and token)
//   SAGENT_URL=... SAGENT_TOKEN=... node examples/serve/watch.ts "Write the answer to note.txt"
//
// Node from 22.18 on runs TypeScript as it is.
import { Client } from "./client.ts";

const client = new Client(process.env.SAGENT_URL!, process.env.SAGENT_TOKEN!);
const text = process.argv[2] ?? "What is here?";
const session = (await client.createSession({ text, permission_mode: "ask" }, { key: crypto.randomUUID() })).id;
const answered = new Set<string>(); // a question is shown until its answer has arrived
for await (const event of client.streamEvents(session)) {
  if (event.name === "status") {
    for (const question of event.data.questions.filter(({ id }) => !answered.has(id))) {
      answered.add(question.id);
      console.log(`? ${question.tool} ${question.text}`);
      await client.answerQuestion(session, question.id, { decision: "allow" });
    }
  } else if (event.data.type === "tool_finished") {
    console.log(`  ${event.data.name}: ${event.data.text}`);
  } else if (event.data.type === "result") {
    console.log(event.data.result);
    break;
  }
}
const cost = await client.getCost(session);
console.log(`$${cost.total.toFixed(4)}, by role: ${JSON.stringify(cost.by_role)}`);
await client.closeSession(session);
