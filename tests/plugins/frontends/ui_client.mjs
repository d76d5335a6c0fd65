// A client of the AI SDK: node ui_client.mjs MODULES URL JSON, where JSON has the prompts of a chat and answers to calls.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, api, script] = process.argv.slice(2);
const ai = await import(pathToFileURL(createRequire(`${modules}/x.js`).resolve("ai")));
const transport = new ai.DefaultChatTransport({ api });
const messages = [];
const turns = [];

for (const step of JSON.parse(script)) {
  if (step.prompt) messages.push({ id: `u${messages.length}`, role: "user", parts: [{ type: "text", text: step.prompt }] });
  const last = messages.at(-1);
  if (step.answer)
    for (const part of last.parts)
      if (part.state === "approval-requested") {
        part.state = "approval-responded";
        part.approval = { ...part.approval, ...step.answer };
      }
  const errors = [];
  const chunks = [];
  const stream = await transport.sendMessages({ chatId: "c1", messages, trigger: "submit-message" });
  const seen = stream.pipeThrough(
    new TransformStream({ transform: (chunk, to) => (chunks.push(chunk.type), to.enqueue(chunk)) }),
  );
  const message = last.role === "assistant" ? last : { id: "", role: "assistant", parts: [] };
  let read = message;
  for await (const now of ai.readUIMessageStream({ message, stream: seen, onError: (e) => errors.push(`${e.message}`) }))
    read = now;
  if (last.role === "assistant") messages.pop();
  messages.push(structuredClone(read));
  const again = ai.lastAssistantMessageIsCompleteWithApprovalResponses;
  const answered = structuredClone(messages);
  for (const part of answered.at(-1).parts)
    if (part.state === "approval-requested") {
      part.state = "approval-responded";
      part.approval.approved = true;
    }
  turns.push({ message: read, chunks, errors, goesOn: again({ messages: answered }) });
}
console.log(JSON.stringify(turns));
