// The same editor in version 2 of the protocol, a draft: prompts are accepted, and states say how their turns go.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [, , modules, cwd, ...command] = process.argv;
const acp = await import(pathToFileURL(`${modules}/@agentclientprotocol/sdk/dist/v2/stable/acp.js`).href);
const agent = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => agent.on("exit", resolve));
const seen = { updates: [], asked: [] };
const { agent: to, client: from } = acp.methods;

const editor = acp
  .client({ name: "editor" })
  .onNotification(from.session.update, ({ params }) => {
    seen.updates.push(params.update);
  })
  .onRequest(from.session.requestPermission, ({ params }) => {
    seen.asked.push(params);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  });

const until = async (found) => {
  while (!found()) await new Promise((resolve) => setTimeout(resolve, 20));
};
const idle = () => seen.updates.filter((each) => each.sessionUpdate === "state_update" && each.state === "idle");

const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
await editor.connectWith(stream, async (context) => {
  seen.initialize = await context.request(to.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    info: { name: "editor", version: "1" },
    capabilities: {},
  });
  seen.session = await context.request(to.session.new, { cwd });
  const sessionId = seen.session.sessionId;
  const prompt = (text) => context.request(to.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  seen.first = await prompt("change it");
  await until(() => idle().length === 1);
  seen.second = await prompt("wait");
  await until(() => seen.updates.some((each) => each.kind === "execute"));
  await context.notify(to.session.cancel, { sessionId });
  await until(() => idle().length === 2);
  seen.options = await context.request(to.session.setConfigOption, {
    sessionId, configId: "mode", type: "id", value: "plan",
  });
  seen.list = await context.request(to.session.list, { cwd });
  await context.request(to.session.close, { sessionId });
  const before = seen.updates.length;
  seen.resumed = await context.request(to.session.resume, { sessionId, cwd, replayFrom: { type: "start" } });
  seen.replayed = seen.updates.slice(before);
});
agent.stdin.end();
seen.code = await ended;
console.log(JSON.stringify(seen));
