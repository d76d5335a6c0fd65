"use strict";
// The page is a fold of one session's events. What models and files say comes as text, which is set as text, or as HTML
// that the server has made of it (the policy "rendered" takes no other).
const rendered = window.trustedTypes
  ? trustedTypes.createPolicy("rendered", { createHTML: (html) => html })
  : { createHTML: (html) => html };
const MAX_EARLIER_EVENTS = 500; // shown when a session is opened
const at = (id) => document.getElementById(id);
const words = at("words");
let sessions = [];
let current = ""; // the session that is shown
let source = null;
let status = null;
let drafts = {}; // by agent: the article of the reply that streams
let running = {}; // by agent and call: its place in the transcript
let blocks = {}; // by agent: where its cards go
let spending = []; // of the session: its cost, as it grew
let live = false; // what arrives happens now
let lastId = ""; // of the last event

// -- talking to the server

// The key of this page goes with each request. It is no cookie: browsers send those to every port of a host.
let key = "";
try {
  key = localStorage.getItem("key") || "";
} catch { /* storage is switched off: the key is lost with the page */ }

async function request(path, options = {}) {
  const headers = { ...options.headers, ...(key && { authorization: `Bearer ${key}` }) };
  const answer = await fetch(path, { ...options, headers }).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("The server does not respond. It may have stopped: start it again, or check the network.");
  });
  if (answer.status === 401 && path !== "/login") logIn();
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw Object.assign(new Error(problem.detail || `${answer.status} ${answer.statusText}`), { refused: answer.status });
  }
  return answer;
}

async function ask(method, path, body, headers = {}) {
  const options = { method, headers: { ...headers } };
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await request(path, options);
  return answer.status === 204 ? null : answer.json();
}

// Events, read by fetch because EventSource sends no headers: each is passed to the function that `heard` has for its
// name. `ended` is called when they stop by themselves, with the error of a refusal.
function listen(path, heard, ended) {
  const stopper = new AbortController();
  const stream = { open: true, close() { stream.open = false; stopper.abort(); } };
  function take(text) {
    const event = { id: "", event: "message", data: "" };
    for (const line of text.split("\n")) {
      const [, name, value] = /^(\w+): ?(.*)$/.exec(line) || [];
      if (name in event) event[name] = value;
    }
    if (event.data && stream.open) (heard[event.event] || (() => {}))(event);
  }
  async function read() {
    const answer = await request(path, { signal: stopper.signal });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const whole = (text + part.value).split("\n\n");
      text = whole.pop();
      whole.forEach(take);
    }
  }
  read().catch((error) => error).then((error) => {
    if (!stream.open) return;
    stream.open = false;
    ended(error);
  });
  return stream;
}

const here = (rest = "") => `/v1/sessions/${current}${rest}`;

// Ask the session on the page; return nothing if another session is on it by the time the answer comes.
async function askShown(method, rest = "", body = undefined) {
  const asked = current;
  const answer = await ask(method, here(rest), body);
  return asked === current ? answer : undefined;
}

async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    say(error.message);
    return undefined;
  }
}

let toasting = 0;
function say(text) {
  at("toast").textContent = text;
  at("toast").hidden = false;
  clearTimeout(toasting);
  toasting = setTimeout(() => (at("toast").hidden = true), 8000);
}

// -- making elements

function make(tag, members = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(members)) {
    if (name === "on") for (const [kind, act] of Object.entries(value)) element.addEventListener(kind, act);
    else if (name in element && typeof value !== "string") element[name] = value;
    else if (value !== undefined && value !== false) element.setAttribute(name === "className" ? "class" : name, value);
  }
  element.append(...inside.filter((each) => each !== "" && each !== null));
  return element;
}

function fill(element, html) {
  element.innerHTML = rendered.createHTML(html);
  return element;
}

const money = (usd) => `$${(usd || 0).toFixed(usd && usd < 0.995 ? 4 : 2)}`;
const short = (path) => path.replace(/^root\//, "");

// -- the list of sessions

async function refresh() {
  const found = await attempt(() => ask("GET", "/v1/sessions"));
  if (!found) return;
  sessions = found.sessions;
  if (status && !sessions.some((each) => each.id === status.id) && status.state !== "closed") sessions.push(status);
  list();
}

function list() {
  const focused = document.activeElement && document.activeElement.dataset.session;
  at("open").replaceChildren(...sessions.map(entry));
  if (focused) at("open").querySelector(`[data-session="${focused}"]`)?.focus();
}

function entry(session) {
  const cost = session.cost_usd ? money(session.cost_usd.total) : "";
  return make("li", {}, make("button", {
    type: "button", "data-session": session.id, "aria-current": String(session.id === current),
    on: { click: () => { show(session.id); view("talk"); } },
  },
  make("span", { className: "name" }, session.title || "New session"),
  make("span", { className: "sub" },
    make("span", { className: "dot", "data-state": session.state, role: "img", "aria-label": session.state }),
    make("span", { className: "where" }, session.cwd.split("/").pop() || "/"), make("span", { className: "grow" }), cost)));
}

at("past").addEventListener("toggle", async () => {
  if (!at("past").open) return;
  const found = await attempt(() => ask("GET", "/v1/sessions?earlier=true"));
  const past = (found ? found.sessions : []).filter((each) => each.state === "closed");
  at("earlier").replaceChildren(...past.map(entry));
  if (!past.length) at("earlier").append(make("li", { className: "quiet" }, "No earlier sessions"));
});

function step(by) {
  if (!sessions.length) return;
  const place = sessions.findIndex((each) => each.id === current);
  const next = sessions[(place + by + sessions.length) % sessions.length];
  show(next.id);
  at("open").querySelector(`[data-session="${next.id}"]`).focus();
}

// -- one session

function show(id) {
  current = id;
  location.hash = id;
  if (source) source.close();
  status = null;
  spending = [];
  clear();
  at("questions").replaceChildren();
  at("questions").hidden = true;
  for (const part of ["files", "points"]) at(part).open = false;
  list();
  lastId = "";
  connect();
}

async function savePage() {
  const name = `${current}.html`;
  const answer = await request(here("/transcript?format=html"));
  const href = URL.createObjectURL(await answer.blob());
  make("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
}
at("as-page").addEventListener("click", () => attempt(savePage));

function connect() {
  let before = 0;
  const heard = {
    message(event) {
      before += live ? 0 : 1;
      lastId = event.id || lastId;
      follow(JSON.parse(event.data));
    },
    status: (event) => stand(JSON.parse(event.data)),
    reset() { if (!live) clear(); dropDrafts(); },
    live() {
      if (live) return;
      live = true;
      const text = "Earlier messages are not shown here. “Save as a page” saves the whole conversation.";
      if (before >= MAX_EARLIER_EVENTS) at("transcript").prepend(make("p", { className: "note" }, text));
      hint();
      toEnd();
    },
    rewound: () => show(current),
  };
  const path = here(`/events?html=1&last=${MAX_EARLIER_EVENTS}${lastId ? `&after=${encodeURIComponent(lastId)}` : ""}`);
  const mine = listen(path, heard, (error) => {
    if (error?.refused === 404) leave(error);
    else if (error?.refused) setTimeout(() => attempt(() => ask("GET", here())), 1000);
    else {
      if (error) say(error.message);
      setTimeout(() => { if (source === mine && !document.hidden) connect(); }, 1000);
    }
  });
  source = mine;
}

// Another server may listen where the session's did.
function leave(error) {
  say(error.message);
  current = "";
  status = null;
  location.hash = "";
  clear();
  start();
}

// A browser has six connections to a server: a page that nobody looks at gives its own back, and goes on later.
let leaving = 0;
function pause() {
  if (source) source.close();
}
document.addEventListener("visibilitychange", () => {
  clearTimeout(leaving);
  if (document.hidden) leaving = setTimeout(pause, 20000);
  else if (current && !source.open) connect();
});

function clear() {
  live = false;
  drafts = {};
  running = {};
  blocks = { root: at("transcript") };
  at("transcript").replaceChildren();
}

function dropDrafts() {
  for (const call of Object.values(running)) call.remove();
  running = {};
  for (const draft of Object.values(drafts)) draft.article.remove();
  drafts = {};
}

function hint() {
  if (at("transcript").childElementCount) return;
  at("transcript").append(make("p", { className: "empty" }, make("strong", {}, "No messages yet"),
    "Describe a task or ask a question, and press Enter to send it."));
}

function atEnd() {
  const box = at("transcript");
  return box.scrollHeight - box.scrollTop - box.clientHeight < 80;
}

function toEnd() {
  at("transcript").scrollTop = at("transcript").scrollHeight;
}

function follow(event) {
  const end = atEnd();
  const act = kinds[event.type];
  if (act) act(event);
  if (end && live) toEnd();
}

function block(agent) {
  if (blocks[agent]) return blocks[agent];
  const box = make("div");
  const parent = block(agent.includes("/") ? agent.slice(0, agent.lastIndexOf("/")) : "root");
  parent.append(make("details", { className: "child", "data-agent": agent },
    make("summary", {}, make("strong", {}, short(agent)), make("span", { className: "quiet" }, "working")), box));
  blocks[agent] = box;
  return box;
}

function note(agent, text) {
  const details = document.querySelector(`details.child[data-agent="${CSS.escape(agent)}"] > summary > .quiet`);
  if (details) details.textContent = text;
}

function card(agent, kind, title, facts = "") {
  at("transcript").querySelector(".empty")?.remove();
  const article = make("article", { className: kind }, make("div", { className: "head" }, make("h3", {}, title),
    make("span", { className: "quiet" }, facts)));
  block(agent).append(article);
  return article;
}

function remark(agent, text, bad = false) {
  at("transcript").querySelector(".empty")?.remove();
  block(agent).append(make("article", { className: "remark" }, make("p", bad ? { className: "bad" } : {}, text)));
}

function draft(agent) {
  if (!drafts[agent]) {
    const article = card(agent, "turn draft", agent === "root" ? "sagent" : short(agent));
    const text = make("div", { className: "plain" });
    const thinking = make("details", { className: "thinking", hidden: true }, make("summary", {}, "Thinking"), make("div", { className: "plain" }));
    article.append(thinking, text);
    drafts[agent] = { article, text, thinking };
  }
  return drafts[agent];
}

function forget(agent) { // calls that will have no result: the server was ended while they ran
  for (const key of Object.keys(running).filter((each) => each.startsWith(`${agent} `))) {
    running[key].firstElementChild.lastChild.textContent = " has no result";
    delete running[key];
  }
}

function gist(call) {
  const names = ["command", "file_path", "pattern", "path", "url", "query", "prompt", "question"];
  const name = names.find((each) => typeof (call.arguments || {})[each] === "string");
  return name ? call.arguments[name].split("\n")[0].slice(0, 160) : "";
}

const kinds = {
  received(event) {
    const sender = event.message.sender;
    const article = card(event.agent, sender ? "told" : "said", sender ? short(sender) : "You");
    article.append(fill(make("div"), event.html || ""));
  },
  text_delta(event) {
    draft(event.agent).text.append(event.text);
  },
  thinking_delta(event) {
    const { thinking } = draft(event.agent);
    thinking.hidden = false;
    thinking.lastElementChild.append(event.text);
  },
  reply_finished(event) {
    dropDraft(event.agent);
    forget(event.agent);
    const facts = [event.message.model, event.usd ? money(event.usd) : ""].filter(Boolean).join(" · ");
    const article = card(event.agent, "turn", event.agent === "root" ? "sagent" : short(event.agent), facts);
    article.append(fill(make("div"), event.html || ""));
    note(event.agent, facts);
  },
  retrying(event) {
    dropDraft(event.agent);
    remark(event.agent, `Retrying in ${event.seconds} s: ${event.reason}`);
  },
  tool_started(event) {
    if (running[`${event.agent} ${event.call_id}`]) return;
    const progress = make("pre");
    const details = make("details", { className: "call running" }, make("summary", {}, make("span", { className: "verb" }, event.name),
      " ", make("code", {}, gist(event)), " …"), progress);
    block(event.agent).append(details);
    running[`${event.agent} ${event.call_id}`] = details;
  },
  tool_progress(event) {
    const details = running[`${event.agent} ${event.call_id}`];
    if (details) details.lastElementChild.textContent = event.text;
  },
  tool_finished(event) {
    const key = `${event.agent} ${event.call_id}`;
    const done = fill(make("div"), event.html || "");
    if (event.job) done.prepend(make("p", { className: "quiet" }, `${event.job} continues in the background`));
    if (running[key]) running[key].replaceWith(done);
    else block(event.agent).append(done);
    delete running[key];
    if (live && at("files").open) files();
  },
  advice_delta(event) {
    draft(event.agent).text.append(event.text);
  },
  advice(event) {
    dropDraft(event.agent);
    const article = card(event.agent, "advice", `${event.advisor} advises`, event.verdict || event.status);
    article.append(fill(make("div"), event.html || ""));
  },
  switched: (event) => remark(event.agent, event.what),
  notice: (event) => remark(event.agent, event.text, event.level === "error"),
  result(event) {
    if (event.agent !== "root") note(event.agent, event.is_error ? event.stop_reason : "done");
    if (drafts[event.agent]) drafts[event.agent].article.classList.remove("draft");
    delete drafts[event.agent];
    forget(event.agent);
    if (event.is_error) remark(event.agent, event.error.message, true);
  },
};

function dropDraft(agent) {
  if (drafts[agent]) drafts[agent].article.remove();
  delete drafts[agent];
}

// -- status

function stand(session) {
  if (!session) return;
  status = session;
  document.body.classList.add("has-session");
  const place = sessions.findIndex((each) => each.id === session.id);
  if (place >= 0) sessions[place] = session;
  else if (session.state !== "closed") sessions.push(session);
  list();
  document.title = `${session.state === "asking" ? "? " : ""}${session.title || "sagent"}`;
  at("title").textContent = session.title || "New session";
  at("state").textContent = session.state;
  at("state").dataset.state = session.state;
  at("stop").hidden = at("when").hidden = session.state !== "working" && session.state !== "asking";
  const closed = session.state === "closed";
  for (const id of ["mode", "model", "effort", "compact", "close"]) at(id).disabled = closed;
  if (!closed) {
    at("mode").value = session.permission_mode;
    if (document.activeElement !== at("model")) at("model").value = session.model;
    at("effort").value = session.effort || "";
  }
  costs(session.cost_usd);
  at("agents").replaceChildren(...session.agents.map(agent));
  questions(session.questions);
}

function costs(cost) {
  const total = cost ? cost.total : 0;
  at("total").textContent = cost && cost.unpriced.length ? `≥ ${money(total)}` : money(total);
  const roles = Object.entries(cost ? cost.by_role : {}).sort((a, b) => b[1] - a[1]);
  at("roles").replaceChildren(...roles.flatMap(([role, usd]) => {
    const share = make("div", { className: "share" });
    share.style.width = `${total ? Math.max(1, (100 * usd) / total) : 0}%`;
    return [make("dt", {}, role), make("dd", {}, money(usd)), make("dd", { className: "share-cell" }, share)];
  }));
  if (!spending.length || spending[spending.length - 1] !== total) spending.push(total);
  if (spending.length > 400) spending = spending.filter((_, place) => place % 2 === 0 || place === spending.length - 1);
  const most = Math.max(...spending, 1e-9);
  const points = spending.map((usd, place) => `${(100 * place) / Math.max(1, spending.length - 1)},${23 - (22 * usd) / most}`);
  at("curve").toggleAttribute("hidden", spending.length < 2);
  at("curve").firstElementChild.setAttribute("points", points.join(" "));
}

function agent(each) {
  const depth = each.path.split("/").length - 1;
  const facts = [each.waits ? "waiting for budget" : each.state, money(each.usd), each.window ? `${Math.round((100 * each.context_tokens) / each.window)} % full` : ""];
  const button = make("button", { type: "button", on: { click: () => find(each.path) } },
    make("span", { className: "name" }, depth ? short(each.path).split("/").pop() : "root"),
    make("span", { className: "sub" }, make("span", { className: "dot", "data-state": each.state }),
      facts.filter(Boolean).join(" · ")),
    ...each.jobs.map((job) => make("span", { className: "sub" }, `${job.name}: ${job.tool} ${job.what}`.slice(0, 80))));
  button.title = each.waits || "";
  button.style.paddingLeft = `${0.3 + depth}rem`;
  return make("li", {}, button);
}

function find(path) {
  view("talk");
  const details = document.querySelector(`details.child[data-agent="${CSS.escape(path)}"]`);
  if (!details) return toEnd();
  for (let part = details; part; part = part.parentElement.closest("details")) part.open = true;
  details.scrollIntoView({ block: "start" });
  return details.firstElementChild.focus();
}

// -- questions: answered on their card alone, by a button, or by y and n while the card itself has the focus

const SETTLE_MS = 700; // a click counts only if no card has moved for so long: a double click must not answer the next card
let moved = 0;
at("questions").addEventListener("click", (click) => {
  if (!click.isTrusted || performance.now() - moved >= SETTLE_MS) return;
  click.preventDefault();
  click.stopPropagation();
}, true);

function questions(asked) {
  const box = at("questions");
  const known = new Set(asked.map((each) => each.id));
  const gone = [...box.children].filter((card) => !known.has(card.dataset.id));
  const fresh = asked.filter((each) => !box.querySelector(`[data-id="${each.id}"]`));
  if (gone.length || fresh.length) moved = performance.now();
  for (const card of gone) card.remove();
  box.append(...fresh.map(question));
  box.hidden = !asked.length;
}

// The whole change to a file. The server has spelled out invisible and confusable characters.
function change(each) {
  const lines = each.diff.split("\n");
  const box = each.html ? fill(make("div"), each.html).firstChild : make("pre", { className: "diff" }, each.diff);
  for (const [name, value] of [["tabindex", "0"], ["aria-label", "Change"], ["role", "region"]]) box.setAttribute(name, value);
  const count = (mark) => lines.filter((line) => line[0] === mark).length;
  const name = each.path.startsWith(`${status.cwd}/`) ? each.path.slice(status.cwd.length + 1) : each.path;
  return [make("p", { className: "row" }, make("code", {}, name), make("span", { className: "add" }, `+${count("+")}`),
    make("span", { className: "del" }, `−${count("-")}`)), box,
  make("details", {}, make("summary", { className: "quiet" }, "Arguments"), make("pre", { tabindex: "0" }, each.text))];
}

function question(each) {
  const heading = make("h3", {}, each.kind === "approval" ? `${short(each.agent)} wants to call ${each.tool}`
    : each.kind === "plan" ? "Carry out this plan?" : `${short(each.agent)} asks`);
  const reason = make("input", { type: "text", "aria-label": each.kind === "approval" ? "Reason for denying (optional)" : "Your own answer",
    placeholder: each.kind === "approval" ? "reason for denying (optional)" : "your own answer" });
  const card = make("div", { className: "question", "data-id": each.id, tabindex: "-1", role: "group", "aria-label": heading.textContent }, heading);
  const answer = (body) => attempt(async () => {
    for (const button of card.querySelectorAll("button")) button.disabled = true;
    stand(await askShown("POST", `/questions/${each.id}`, body));
  }).finally(() => { for (const button of card.querySelectorAll("button")) button.disabled = false; words.focus(); });
  const deny = () => answer(reason.value ? { decision: "deny", reason: reason.value } : { decision: "deny" });
  if (each.kind === "approval") {
    card.append(...(each.diff ? change(each) : [make("pre", { tabindex: "0" }, each.text)]), make("p", { className: "quiet" }, each.reason));
    if (each.wants.length) card.append(make("p", { className: "bad" }, `Also needs: ${each.wants.join(", ")}`));
    card.append(make("div", { className: "row" },
      make("button", { type: "button", on: { click: () => answer({ decision: "allow" }) } }, "Allow ", make("kbd", {}, "y")),
      make("button", { type: "button", on: { click: deny } }, "Deny ", make("kbd", {}, "n")), reason));
    const longer = { session: "Allow in this session", always: "Allow always" };
    const rules = each.rules.map((rule) => rule.includes("(") ? rule : `every call of ${rule}`).join(", ");
    const scopes = each.scopes.filter((scope) => longer[scope]);
    if (scopes.length) card.append(make("div", { className: "row longer" }, ...scopes.map((scope) =>
      make("button", { type: "button", on: { click: () => answer({ decision: "allow", scope }) } }, longer[scope])),
    make("code", {}, rules)));
    card.addEventListener("keydown", (key) => {
      if (key.target !== card || key.ctrlKey || key.metaKey || key.altKey || key.repeat) return;
      if (key.key === "y") answer({ decision: "allow" });
      if (key.key === "n") deny();
      if (key.key === "y" || key.key === "n") key.preventDefault();
    });
    return card;
  }
  card.append(each.html ? fill(make("div"), each.html) : make("div", { className: "plain" }, each.text));
  const options = each.kind === "plan" ? ["Accepted. Carry it out."] : each.options;
  const boxes = each.multiple ? options.map((option) => make("input", { type: "checkbox", value: option })) : [];
  if (each.multiple) card.append(...boxes.map((box, place) => make("label", {}, box, options[place])));
  else card.append(make("div", { className: "row" }, ...options.map((option) =>
    make("button", { type: "button", on: { click: () => answer({ answer: option }) } }, option))));
  const own = () => {
    const said = [...boxes.filter((box) => box.checked).map((box) => box.value), ...(reason.value ? [reason.value] : [])];
    if (said.length) answer({ answer: said.join("\n") });
  };
  reason.addEventListener("keydown", (key) => { if (key.key === "Enter") { key.preventDefault(); own(); } });
  card.append(make("div", { className: "row" }, reason, make("button", { type: "button", on: { click: own } }, "Answer"),
    make("button", { type: "button", className: "plain-button", on: { click: () => answer({ decision: "deny" }) } }, "Skip")));
  return card;
}

// -- writing

let sending = false;
async function send() {
  const text = words.value.trim();
  if (!text || sending) return;
  sending = true;
  const key = crypto.randomUUID ? crypto.randomUUID() : String(Math.random());
  try {
    if (current) {
      await ask("POST", here("/messages"), { text, moment: at("moment").value }, { "Idempotency-Key": key });
    } else {
      show((await ask("POST", "/v1/sessions", { text }, { "Idempotency-Key": key })).id);
    }
    words.value = "";
    size();
    toEnd();
  } catch (error) {
    say(error.message);
  }
  sending = false;
}

function size() {
  words.rows = Math.min(12, Math.max(2, words.value.split("\n").length));
}

const interrupt = () => attempt(async () => stand(await askShown("POST", "/interrupt", {})));
const act = (body) => attempt(async () => stand(await askShown("POST", "/actions", body)));

words.addEventListener("input", size);
words.addEventListener("keydown", (key) => {
  if (key.key === "Enter" && !key.shiftKey && !key.isComposing) {
    key.preventDefault();
    send();
  }
});
at("composer").addEventListener("submit", (event) => { event.preventDefault(); send(); });
at("stop").addEventListener("click", interrupt);
at("mode").addEventListener("change", () => act({ type: "mode", permission_mode: at("mode").value }));
at("effort").addEventListener("change", () => act({ type: "switch", effort: at("effort").value || "none" }));
at("switch").addEventListener("submit", (event) => { event.preventDefault(); act({ type: "switch", model: at("model").value }); });
at("compact").addEventListener("click", () => act({ type: "compact" }));
at("close").addEventListener("click", () => attempt(async () => {
  await askShown("DELETE");
  stand(await askShown("GET"));
  refresh();
}));

// -- files and going back

async function files() {
  const box = at("files").querySelector(".fill");
  const found = await attempt(() => askShown("GET", "/files"));
  if (!found) return;
  box.replaceChildren(...found.changed.map((file) => {
    const place = make("div");
    const open = make("button", { type: "button", on: { click: () => attempt(async () => {
      const diff = await askShown("GET", `/diff?html=1&path=${encodeURIComponent(file.path)}`);
      if (!diff) return;
      if (diff.html) fill(place, diff.html);
      else place.textContent = diff.note || "No changed lines";
    }) } }, "Diff");
    const name = file.path.startsWith(`${status.cwd}/`) ? file.path.slice(status.cwd.length + 1) : file.path;
    return make("div", {}, make("div", { className: "row" }, make("code", {}, name), make("span", { className: "add" }, `+${file.added}`),
      make("span", { className: "del" }, `−${file.removed}`), open), place);
  }));
  if (!found.changed.length) box.append(make("p", { className: "quiet" }, "No changed files"));
}

async function points() {
  const box = at("points").querySelector(".fill");
  const found = await attempt(() => askShown("GET", "/points"));
  if (!found) return;
  box.replaceChildren(...found.points.slice().reverse().map((point) => {
    const back = (what) => attempt(async () => {
      if (!confirm(`Go back to the point before “${point.text.slice(0, 80)}”?`)) return;
      const done = await askShown("POST", "/rewind", { point: point.id, what });
      if (!done) return;
      say(`Files: ${done.changed.length} restored, ${done.left.length} left unchanged.`);
      if (point.current && what !== "files" && !words.value) words.value = point.text;
      points();
    });
    return make("div", { className: "row" }, make("span", { className: "grow" }, `${point.current ? "" : "(branch) "}${point.text}`),
      make("button", { type: "button", on: { click: () => back("both") } }, "Conversation and files"),
      make("button", { type: "button", on: { click: () => back("conversation") } }, "Conversation only"));
  }));
  if (!found.points.length) box.append(make("p", { className: "quiet" }, "No earlier messages to go back to"));
}

at("files").addEventListener("toggle", () => at("files").open && files());
at("points").addEventListener("toggle", () => at("points").open && points());

// -- dialogs, views, keys

function view(name) {
  document.body.dataset.view = name;
}

at("to-sessions").addEventListener("click", () => view("sessions"));
at("to-details").addEventListener("click", () => view("details"));
at("to-talk").addEventListener("click", () => view("talk"));
at("new").addEventListener("click", () => { at("wrong").textContent = ""; at("begin").showModal(); });
at("never").addEventListener("click", () => at("begin").close());
at("begin").querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = Object.fromEntries([...new FormData(event.target)].filter(([, value]) => value.trim()));
  if (given.max_budget_usd) given.max_budget_usd = Number(given.max_budget_usd);
  try {
    const made = await ask("POST", "/v1/sessions", given);
    at("begin").close();
    event.target.reset();
    sessions.push(made);
    show(made.id);
    view("talk");
    words.focus();
  } catch (error) {
    at("wrong").textContent = error.message;
  }
});

function logIn() {
  if (!at("login").open) at("login").showModal();
}

async function enter(token) {
  try {
    key = (await ask("POST", "/login", { token })).key;
    try {
      localStorage.setItem("key", key);
    } catch { /* as above */ }
    at("refused").textContent = "";
    if (at("login").open) at("login").close();
    start();
  } catch (error) {
    at("refused").textContent = error.message;
    logIn();
  }
}

window.addEventListener("storage", (event) => { // another tab has logged in
  if (event.key !== "key" || !event.newValue || !at("login").open) return;
  key = event.newValue;
  at("login").close();
  start();
});

at("login").addEventListener("cancel", (event) => event.preventDefault());
at("login").querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  enter(event.target.elements.token.value.trim());
});

document.addEventListener("keydown", (key) => {
  if (key.ctrlKey || key.metaKey || key.altKey || document.querySelector("dialog[open]")) return;
  if (key.key === "Escape") {
    if (document.body.dataset.view !== "talk") view("talk");
    else if (!at("stop").hidden || Object.keys(drafts).length) interrupt();
    return;
  }
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(key.target.tagName) || key.target.closest(".question")) return;
  const does = {
    j: () => step(1), k: () => step(-1), "/": () => words.focus(), c: () => at("new").click(),
    q: () => at("questions").querySelector(".question")?.focus(),
  }[key.key];
  if (does) {
    key.preventDefault();
    does();
  }
});
at("open").addEventListener("keydown", (key) => {
  if (key.key === "ArrowDown" || key.key === "ArrowUp") {
    key.preventDefault();
    step(key.key === "ArrowDown" ? 1 : -1);
  }
});

async function start() {
  const wanted = location.hash.slice(1);
  await refresh();
  if (current) { // chosen meanwhile, or from before the log-in
    if (!source.open) connect();
    return;
  }
  if (wanted && /^[\w-]+$/.test(wanted)) show(wanted);
  else if (sessions.length) show(sessions[sessions.length - 1].id);
  else { clear(); hint(); }
}

clear();
if (location.hash.startsWith("#token=")) {
  const token = location.hash.slice(7);
  history.replaceState(null, "", "/");
  enter(token);
} else {
  start();
}
setInterval(() => { if (!document.hidden && !document.querySelector("dialog[open]")) refresh(); }, 10000);
