// A client made with the JavaScript SDK: a task that asks, its answer, what is kept of it, a stream to come back to.
// Arguments: node_modules, the server's URL, its token, "JSONRPC" or "HTTP+JSON", the version. Prints JSON.
const [modules, url, token, transport, version] = process.argv.slice(2);
const sdk = `${modules}/@a2a-js/sdk/dist`;
const { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } = await import(
  `${sdk}/client/index.js`
);

const fetchImpl = (address, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("authorization", `Bearer ${token}`);
  return fetch(address, { ...init, headers });
};
const options = { fetchImpl, legacyCompat: { enabled: version === "0.3" } };
const factory = new ClientFactory({
  transports: [new JsonRpcTransportFactory(options), new RestTransportFactory(options)],
  preferredTransports: [transport],
  cardResolver: new DefaultAgentCardResolver(options),
});
const card = await new DefaultAgentCardResolver(options).resolve(url);
card.supportedInterfaces = card.supportedInterfaces.filter((each) => each.protocolVersion === version);
const client = await factory.createFromAgentCard(card);

let number = 0;
const said = (text, taskId = "", contextId = "") => ({
  message: {
    messageId: `js-${process.pid}-${number++}`,
    role: 1,
    parts: [{ content: { $case: "text", value: text }, filename: "", mediaType: "" }],
    taskId,
    contextId,
    extensions: [],
    referenceTaskIds: [],
  },
  tenant: "",
});
const seen = { kinds: [] };
let task, context, state, asked;
for await (const { payload } of client.sendMessageStream(said("Write a."))) {
  seen.kinds.push(payload.$case);
  if (payload.$case === "task") [task, context] = [payload.value.id, payload.value.contextId];
  if (payload.$case === "statusUpdate") [state, asked] = [payload.value.status.state, payload.value.status.message];
}
seen.asking = state;
seen.asked = asked.parts[0].content.value;
const done = await client.sendMessage(said("allow", task, context));
seen.state = done.status.state;
seen.answer = done.artifacts.find((each) => each.artifactId === "answer").parts[0].content.value;
const kept = await client.getTask({ id: task, tenant: "" });
seen.same = kept.status.state === done.status.state && kept.artifacts.length === done.artifacts.length;
try {
  for await (const { payload } of client.resubscribeTask({ id: task, tenant: "" })) {
    seen.ended = payload.$case === "task" && payload.value.status.state === 3 ? "COMPLETED" : "?";
  }
} catch (error) {
  seen.ended = String(error.message);
}
try {
  await client.cancelTask({ id: task, tenant: "" });
} catch (error) {
  seen.canceled = String(error.message);
}
console.log(JSON.stringify(seen));
