/** One call as received by a model server. `body` is the parsed body, `undefined` if it was not JSON. */
export interface Call {
  readonly id: number;
  /** The endpoint, such as `/v1/chat/completions`. */
  readonly path: string;
  readonly model: string;
  readonly stream: boolean;
  readonly body: unknown;
  /** The caller's `x-request-id`. */
  readonly requestId: string | undefined;
  /** The trace that the caller continues. */
  readonly trace?: Readonly<Record<'traceparent' | 'tracestate', string | undefined>>;
  readonly headers: { readonly contentType: string | undefined; readonly hasAuthorization: boolean };
  /** The headers that only this endpoint has, such as `anthropic-version`. */
  readonly ownHeaders: Readonly<Record<string, string | undefined>>;
  /** `aborted`: the client left first. `failed`: the server answered with an error or cut off the reply. */
  readonly state: 'running' | 'completed' | 'aborted' | 'failed';
  /** Of an error that a fault required. */
  readonly status?: number | undefined;
  /** Events that carried a token; 1 for a whole reply. */
  readonly chunksSent: number;
  readonly promptTokens: number;
  /** The prompt tokens that were in the prefix cache. */
  readonly cachedTokens: number;
  /** Produced so far; of a stream, what was sent. */
  readonly completionTokens: number;
  /** How many calls of its model were running when it arrived, including itself. */
  readonly atOnce: number;
  /** Milliseconds of Unix time. */
  readonly startedAt: number;
  readonly endedAt: number | undefined;
}

export type Writable<T> = { -readonly [Key in keyof T]: T[Key] };
export type Arrival = Pick<
  Call,
  'path' | 'model' | 'stream' | 'body' | 'requestId' | 'trace' | 'headers' | 'ownHeaders'
>;
type Change = Partial<
  Pick<Call, 'state' | 'status' | 'chunksSent' | 'promptTokens' | 'cachedTokens' | 'completionTokens'>
>;

export type CallList = ReturnType<typeof createCallList>;

/** The last `kept` calls, oldest first. */
export function createCallList(kept: number) {
  const calls = new Map<number, Writable<Call>>();
  const watchers = new Set<() => void>();
  /** Totals by model, counted with each call, because a benchmark makes very many calls. */
  const running = new Map<string, number>();
  let nextId = 1;
  const count = (model: string, change: number) => {
    const now = (running.get(model) ?? 0) + change;
    running.set(model, now);
    return now;
  };
  const resolveWaiting = () => {
    for (const look of watchers) look();
  };
  return {
    list: (): Call[] => Array.from(calls.values(), (call) => ({ ...call })),
    clear: () => calls.clear(),
    add(arrival: Arrival): Call {
      const call: Writable<Call> = {
        id: nextId,
        ...arrival,
        ...untouched(),
        atOnce: count(arrival.model, 1),
        startedAt: Date.now(),
        endedAt: undefined,
      };
      nextId += 1;
      calls.set(call.id, call);
      const oldest = calls.size > kept ? calls.keys().next().value : undefined;
      if (oldest !== undefined) calls.delete(oldest);
      resolveWaiting();
      return call;
    },
    change(call: Call, change: Change): void {
      if (call.state === 'running' && (change.state ?? 'running') !== 'running') count(call.model, -1);
      Object.assign(call, change);
      if (change.state !== undefined) Object.assign(call, { endedAt: Date.now() });
      resolveWaiting();
    },
    /** Resolves with the first kept call that matches. Rejects after `withinMs`. */
    wait(matches: (call: Call) => boolean, withinMs: number): Promise<Call> {
      return new Promise((resolve, reject) => {
        const look = () => {
          for (const call of calls.values()) if (matches(call)) return settle(() => resolve({ ...call }));
        };
        const settle = (end: () => void) => {
          clearTimeout(deadline);
          watchers.delete(look);
          end();
        };
        const late = () => settle(() => reject(new Error(`no such call within ${withinMs} ms`)));
        const deadline = setTimeout(late, withinMs);
        watchers.add(look);
        look();
      });
    },
  };
}

function untouched() {
  return { state: 'running', chunksSent: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0 } as const;
}
