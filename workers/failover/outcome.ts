/**
 * What an attempt at a backend comes to (contract.md#ms-model-servers). `refused`: the request is at fault. `too_long`: it does not fit
 * into the context. `busy`, `loading` and `not_offered`: the backend is well, and does not serve this request now or at all. `failed`: it
 * gave no answer. `interrupted`: it broke off.
 */
export type Outcome =
  | 'answered'
  | 'refused'
  | 'too_long'
  | 'busy'
  | 'loading'
  | 'not_offered'
  | 'failed'
  | 'interrupted';

/**
 * The outcome of an attempt in metrics and records: also the ends that are ours. `over_limit`: it answered, and exceeded the output limit.
 * `too_large`: its answer exceeds the limit of one answer. `stopped`: the call was given up. `fault`: an internal error.
 */
export type AttemptOutcome = Outcome | 'over_limit' | 'too_large' | 'stopped' | 'fault';

/**
 * What follows from an outcome, until text of the answer has reached the client. `next`: which backends are asked next. `breaker`: whether
 * the attempt counts there. `pause`: for how long no worker calls the backend. `waits`: if no other is left, the request waits for it.
 */
export type Treatment = {
  next: 'none' | 'any' | 'with a larger context';
  breaker: 'success' | 'alive' | 'by evidence';
  pause: 'none' | 'as it asks, or longer each time' | 'a second';
  waits: boolean;
  /** What the client gets if no backend is left. */
  client: 'the answer' | 'its words, as 400' | 'too long, as 400' | 'exhausted';
};

const answered = { next: 'none', breaker: 'success', pause: 'none', waits: false } as const;
const unavailable = { next: 'any', breaker: 'alive', pause: 'none', waits: false, client: 'exhausted' } as const;
const failure = { ...unavailable, breaker: 'by evidence' } as const;

/** The only place that says what an outcome does. */
export const treatments: Readonly<Record<Outcome, Treatment>> = {
  answered: { ...answered, client: 'the answer' },
  refused: { ...answered, client: 'its words, as 400' },
  too_long: { ...answered, next: 'with a larger context', client: 'too long, as 400' },
  busy: { ...unavailable, pause: 'as it asks, or longer each time', waits: true },
  loading: { ...unavailable, pause: 'a second', waits: true },
  not_offered: unavailable,
  failed: failure,
  interrupted: failure,
};
