import type { Lane } from '../../shared/lane.ts';
import type { Backend } from '../../shared/process/plan-file.ts';

/** A backend that serves the model and was not tried yet in this pass, as it stands now. */
export type Candidate = {
  name: string;
  location: Backend['location'];
  /** It is not to be called: its breaker is open or tries one call just now, or it asked to be left alone. */
  refuses: boolean;
  /** Calls of this process that it has in hand, whatever their model, and how many it may have. */
  inFlight: number;
  requestsAtOnce: number;
  /** How long it has recently taken to its first token, in milliseconds; undefined where that is not known. */
  firstTokenMs: number | undefined;
};

/** `full`: those that would be called have no room just now, which is no failure. `refused`: none of them is to be called. */
export type Choice = { outcome: 'call'; name: string } | { outcome: 'full' } | { outcome: 'refused' };

/** From here on two are drawn and the better one taken: all processes choosing the same one would overload it in turn. */
const many = 5;

/**
 * The backend to call next: on-prem replicas before the cloud, which is called only where none of them can be; the least
 * loaded first, that is the one with the fewest calls in flight, then the quickest to its first token (one of which nothing
 * is known first, to find out), then as the plan file has them. A line of a batch (`lane`) waits for a replica that is full, and
 * goes to the cloud only where none is to be called. `random` is in [0, 1).
 */
export function chooseBackend(
  candidates: readonly Candidate[],
  { lane = 'interactive', random = Math.random }: { lane?: Lane; random?: () => number } = {},
): Choice {
  const called = candidates.filter(({ refuses }) => !refuses);
  const replicas = called.filter(({ location }) => location === 'on-prem');
  const willing = lane === 'batch' && replicas.length > 0 ? replicas : called;
  const free = willing.filter(({ inFlight, requestsAtOnce }) => inFlight < requestsAtOnce);
  const onPrem = free.filter(({ location }) => location === 'on-prem');
  const [first] = draw(onPrem.length > 0 ? onPrem : free, random).sort(byLoad);
  if (first !== undefined) return { outcome: 'call', name: first.name };
  return { outcome: willing.length > 0 ? 'full' : 'refused' };
}

function draw(candidates: readonly Candidate[], random: () => number): Candidate[] {
  if (candidates.length < many) return [...candidates];
  const one = Math.floor(random() * candidates.length);
  const other = (one + 1 + Math.floor(random() * (candidates.length - 1))) % candidates.length;
  return candidates.filter((_candidate, index) => index === one || index === other);
}

function byLoad(one: Candidate, other: Candidate): number {
  return one.inFlight - other.inFlight || (one.firstTokenMs ?? 0) - (other.firstTokenMs ?? 0);
}
