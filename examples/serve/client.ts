// A client of `sagent serve`. Made by scripts/make_clients.py from openapi.json; do not edit.
//
//   const client = new Client(url, token);
//   const session = await client.createSession({ text: "Fix the tests" });
//   for await (const event of client.streamEvents(session.id)) ...

/** Everything is optional: what is left out is as the server was started. */
export interface NewSession {
  cwd?: string;
  model?: string;
  effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";
  permission_mode?: "plan" | "ask" | "edit" | "auto" | "full";
  max_budget_usd?: number;
  text?: string;
}

export interface NewMessage {
  text: string;
  moment?: "now" | "next" | "idle";
  agent?: string;
}

export interface Sent {
  session: string;
  state: "started" | "sent";
}

export interface Interrupt {
  agent?: string;
}

/** For an approval `decision`, for an inquiry or a plan `answer` (the text), or `decision` "deny" to leave it unanswered. */
export interface Answer {
  decision?: "allow" | "deny";
  scope?: "once" | "session" | "always";
  reason?: string;
  answer?: string;
}

export interface Action {
  type: "switch" | "mode" | "compact" | "consult" | "background" | "cancel" | "stop";
  agent?: string;
  model?: string;
  effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";
  advisor?: string;
  permission_mode?: "plan" | "ask" | "edit" | "auto" | "full";
  hints?: string;
  question?: string;
  call_id?: string;
}

export interface Rewind {
  point: string;
  what?: "both" | "conversation" | "files";
  preview?: boolean;
}

export interface Session {
  id: string;
  cwd: string;
  title: string;
  state: "idle" | "working" | "asking" | "closed";
  model?: string;
  effort?: string;
  permission_mode?: "plan" | "ask" | "edit" | "auto" | "full";
  max_budget_usd?: number | null;
  cost_usd?: Cost;
  agents: Array<Agent>;
  questions: Array<Question>;
}

export interface Sessions {
  sessions: Array<Session>;
}

export interface Agent {
  path: string;
  state: "idle" | "working" | "ended";
  model: string;
  turns: number;
  usd: number;
  context_tokens?: number;
  window?: number | null;
  waits?: string;
  jobs?: Array<Record<string, any>>;
}

export interface Question {
  id: string;
  agent: string;
  kind: "approval" | "inquiry" | "plan";
  text: string;
  path?: string;
  diff?: string;
  tool?: string;
  call_id?: string;
  reason?: string;
  wants?: Array<string>;
  rules?: Array<string>;
  scopes?: Array<"once" | "session" | "always">;
  options?: Array<string>;
  multiple?: boolean;
  plan?: string;
}

/** USD. `unpriced` names models without a known price: then it is a minimum. `unbilled` was sent and may be billed. */
export interface Cost {
  total: number;
  executor?: number;
  advisor?: number;
  other?: number;
  by_role: Record<string, number>;
  by_agent: Record<string, number>;
  by_model: Record<string, number>;
  unpriced?: Array<string>;
  unbilled?: number;
}

/** An event as `sagent --output-format stream-json` prints it: `type`, `agent` (a path), and the members of its type, of which those that most have are listed. See docs/streaming.md. */
export interface Event {
  type: "session" | "received" | "text_delta" | "thinking_delta" | "reply_finished" | "retrying" | "tool_started" | "tool_progress" | "tool_finished" | "advice_delta" | "advice" | "denied" | "switched" | "notice" | "result";
  agent: string;
  id?: string;
  text?: string;
  message?: Record<string, any>;
  call_id?: string;
  name?: string;
  arguments?: Record<string, any>;
  is_error?: boolean;
  seconds?: number;
  diff?: string;
  summary?: string;
  usd?: number | null;
  level?: string;
  result?: string;
  stop_reason?: string;
  html?: string;
}

export interface Transcript {
  events: Array<Event>;
  next: string;
}

export interface Points {
  points: Array<Record<string, any>>;
}

export interface Changes {
  changed: Array<Change>;
  left: Array<Untouched>;
  omitted: Array<Untouched>;
  commands: boolean;
}

export interface Change {
  path: string;
  how: "written" | "created" | "deleted";
  added: number;
  removed: number;
}

export interface Untouched {
  path: string;
  why: string;
}

export interface Diff {
  path: string;
  diff: string;
  note: string;
  html?: string;
}

/** RFC 9457. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  kind?: string;
}

/** A server-sent event: one of an agent, or with a `name` one of the server's own. */
export interface ServerEvent {
  id: string;
  name: string;
  data: any;
}

/** The server did not do it; `problem` says why. */
export class ServeError extends Error {
  readonly problem: Problem;
  constructor(problem: Problem) {
    super(problem.detail);
    this.problem = problem;
  }
}

function search(options: Record<string, unknown>): string {
  const given = Object.entries(options).filter(([name, value]) => value !== undefined && name !== "key");
  return given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "";
}

async function refused(answer: Response): Promise<ServeError> {
  const text = await answer.text();
  try {
    return new ServeError(JSON.parse(text));
  } catch {
    return new ServeError({ type: "about:blank", title: answer.statusText, status: answer.status, detail: text || answer.statusText });
  }
}

/** Speaks to a server at a URL with a token. */
export class Client {
  private readonly url: string;
  private readonly token: string;
  constructor(url: string, token: string) {
    this.url = url.replace(/\/$/, "");
    this.token = token;
  }

  private async ask(method: string, path: string, body?: unknown, options: Record<string, unknown> = {}): Promise<any> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.token}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (options.key) headers["idempotency-key"] = String(options.key);
    const init = { method, headers, body: body === undefined ? undefined : JSON.stringify(body) };
    const answer = await fetch(this.url + path + search(options), init);
    if (!answer.ok) throw await refused(answer);
    if (answer.status === 204) return undefined;
    return answer.headers.get("content-type")?.startsWith("application/json") ? answer.json() : answer.text();
  }

  /** The events, over connections that break; it ends only with the server's refusal. */
  private async *stream(path: string, options: Record<string, unknown>): AsyncGenerator<ServerEvent> {
    let after = String(options.after ?? "");
    while (true) {
      const headers: Record<string, string> = { authorization: `Bearer ${this.token}` };
      if (after) headers["last-event-id"] = after;
      try {
        const answer = await fetch(this.url + path + search({ ...options, after: undefined }), { headers });
        if (!answer.ok) throw await refused(answer);
        let [rest, id, name, data] = ["", "", "", ""];
        for await (const piece of answer.body!.pipeThrough(new TextDecoderStream())) {
          const lines = (rest + piece).split("\n");
          rest = lines.pop()!;
          for (const line of lines) {
            if (line.startsWith("id: ")) id = line.slice(4);
            else if (line.startsWith("event: ")) name = line.slice(7);
            else if (line.startsWith("data: ")) data += line.slice(6);
            else if (line === "" && data) {
              after = id || after;
              yield { id, name, data: JSON.parse(data) };
              [id, name, data] = ["", "", ""];
            }
          }
        }
      } catch (error) {
        if (error instanceof ServeError) throw error;
      }
      await new Promise((done) => setTimeout(done, 1000));
    }
  }

  /** List the open sessions, and with `earlier` those on the disk. */
  listSessions(options: { earlier?: boolean } = {}): Promise<Sessions> {
    return this.ask("GET", `/v1/sessions`, undefined, options);
  }

  /** Start a session. */
  createSession(body: NewSession = {}, options: { key?: string } = {}): Promise<Session> {
    return this.ask("POST", `/v1/sessions`, body, options);
  }

  /** Return the state of a session: agents, cost, open questions. */
  getSession(session: string): Promise<Session> {
    return this.ask("GET", `/v1/sessions/${encodeURIComponent(session)}`, undefined);
  }

  /** Interrupt and close a session. It stays on the disk, and a message opens it again. */
  closeSession(session: string): Promise<void> {
    return this.ask("DELETE", `/v1/sessions/${encodeURIComponent(session)}`, undefined);
  }

  /** Open an earlier session, unless it is open. */
  openSession(session: string): Promise<Session> {
    return this.ask("POST", `/v1/sessions/${encodeURIComponent(session)}/open`, undefined);
  }

  /** Send a message: it begins a run, or the run in progress reads it. Opens a session that is closed. */
  sendMessage(session: string, body: NewMessage = {}, options: { key?: string } = {}): Promise<Sent> {
    return this.ask("POST", `/v1/sessions/${encodeURIComponent(session)}/messages`, body, options);
  }

  /** Stream the events as server-sent events, from the beginning or after `Last-Event-ID`, then new ones. */
  streamEvents(session: string, options: { after?: string; last?: number; html?: boolean } = {}): AsyncGenerator<ServerEvent> {
    return this.stream(`/v1/sessions/${encodeURIComponent(session)}/events`, options);
  }

  /** Return the events so far, or the conversation as Markdown or as a page. */
  getTranscript(session: string, options: { format?: "json" | "md" | "html"; after?: string; limit?: number } = {}): Promise<Transcript> {
    return this.ask("GET", `/v1/sessions/${encodeURIComponent(session)}/transcript`, undefined, options);
  }

  /** Stop the run in progress. */
  interrupt(session: string, body: Interrupt = {}): Promise<Session> {
    return this.ask("POST", `/v1/sessions/${encodeURIComponent(session)}/interrupt`, body);
  }

  /** List the questions that wait for a person's answer. */
  listQuestions(session: string): Promise<Array<Question>> {
    return this.ask("GET", `/v1/sessions/${encodeURIComponent(session)}/questions`, undefined);
  }

  /** Answer a question. */
  answerQuestion(session: string, question: string, body: Answer = {}): Promise<Session> {
    return this.ask("POST", `/v1/sessions/${encodeURIComponent(session)}/questions/${encodeURIComponent(question)}`, body);
  }

  /** Switch model, effort, advisor or permission mode; compact; consult; stop a call or the turn. */
  act(session: string, body: Action = {}): Promise<Session> {
    return this.ask("POST", `/v1/sessions/${encodeURIComponent(session)}/actions`, body);
  }

  /** Return the cost of a session, by role, agent and model. */
  getCost(session: string): Promise<Cost> {
    return this.ask("GET", `/v1/sessions/${encodeURIComponent(session)}/cost`, undefined);
  }

  /** List the requests that the session can be rewound to. */
  listPoints(session: string): Promise<Points> {
    return this.ask("GET", `/v1/sessions/${encodeURIComponent(session)}/points`, undefined);
  }

  /** Rewind to before a request: conversation, files or both. Can be undone in the same way. */
  rewind(session: string, body: Rewind = {}): Promise<Changes> {
    return this.ask("POST", `/v1/sessions/${encodeURIComponent(session)}/rewind`, body);
  }

  /** List the files that the session has changed. */
  listFiles(session: string): Promise<Changes> {
    return this.ask("GET", `/v1/sessions/${encodeURIComponent(session)}/files`, undefined);
  }

  /** Return the changes to a file in a session. */
  getDiff(session: string, options: { path: string; html?: boolean }): Promise<Diff> {
    return this.ask("GET", `/v1/sessions/${encodeURIComponent(session)}/diff`, undefined, options);
  }
}
