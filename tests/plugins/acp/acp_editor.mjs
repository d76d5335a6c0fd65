// An editor built on the TypeScript SDK of the protocol: a session with a change that is asked about and reviewed, a
// cancelled turn, options and a list. Prints one line of JSON with what it has seen.
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [, , modules, cwd, ...command] = process.argv;
const acp = await import(pathToFileURL(`${modules}/@agentclientprotocol/sdk/dist/v1/stable/acp.js`).href);
const agent = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => agent.on("exit", resolve));
const seen = { updates: [], asked: [], written: [] };
const { agent: to, client: from } = acp.methods;

const editor = acp
  .client({ name: "editor" })
  .onNotification(from.session.update, ({ params }) => {
    seen.updates.push(params.update);
  })
  .onRequest(from.session.requestPermission, ({ params }) => {
    seen.asked.push(params);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onRequest(from.fs.readTextFile, async ({ params }) => ({ content: await readFile(params.path, "utf8") }))
  .onRequest(from.fs.writeTextFile, async ({ params }) => {
    seen.written.push(params.path);
    await writeFile(params.path, params.content);
    return {};
  });

const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
await editor.connectWith(stream, async (context) => {
  seen.initialize = await context.request(to.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
  });
  seen.session = await context.request(to.session.new, { cwd, mcpServers: [] });
  const sessionId = seen.session.sessionId;
  const prompt = (text) => context.request(to.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  seen.first = await prompt("change it");
  const second = prompt("wait");
  while (!seen.updates.some((each) => each.kind === "execute")) await new Promise((resolve) => setTimeout(resolve, 20));
  await context.notify(to.session.cancel, { sessionId });
  seen.second = await second;
  seen.mode = await context.request(to.session.setMode, { sessionId, modeId: "plan" });
  seen.options = await context.request(to.session.setConfigOption, { sessionId, configId: "effort", value: "high" });
  seen.list = await context.request(to.session.list, { cwd });
  seen.error = await context.request("_unknown/method", {}).catch((error) => ({ code: error.code }));
  await context.request(to.session.close, { sessionId });
  seen.loaded = await context.request(to.session.load, { sessionId, cwd, mcpServers: [] });
});
agent.stdin.end();
seen.code = await ended;
console.log(JSON.stringify(seen));
