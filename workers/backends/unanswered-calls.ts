import type { PlanFile } from '../../shared/plan-file.ts';

/** The calls of each model that have not been answered yet, so that a model that falls silent leaves room for others. */
export interface UnansweredCalls {
  /**
   * What it returns is called when the call is answered, or has ended without; only the first word counts. `isHeard`: its
   * answer comes in parts, so that it can be told from silence.
   */
  begin(model: string, isHeard: boolean): (isAnswered: boolean) => void;
  /** It has as many as one model of a pool may; one that has its pool for itself harms no other. */
  isCrowded(model: string): boolean;
  /** It is crowded, and nothing was heard of it for a while. */
  isSilent(model: string): boolean;
}

type Parts = {
  models: PlanFile['models'];
  /** Jobs at once in each pool. */
  concurrency: number;
  firstTokenMs: number;
  now: () => number;
};

/** Of a pool's jobs, those whose calls nobody has answered, of one model. */
const share = 0.75;
/** Of the time that a first token may take: a model that is only slow is heard of before, of one call or another. */
const silentShare = 0.25;

type Call = { at: number };

export function createUnansweredCalls({ models, concurrency, firstTokenMs, now }: Parts): UnansweredCalls {
  const begun = new Map<string, { all: Set<Call>; heard: Set<Call> }>();
  const answeredAt = new Map<string, number>();
  const pools = Object.values(models).map(({ pool }) => pool);
  const isAlone = ({ pool }: { pool: string }) => pools.filter((each) => each === pool).length === 1;
  const shared = new Set(Object.keys(models).filter((name) => models[name] !== undefined && !isAlone(models[name])));

  function isCrowded(model: string): boolean {
    return shared.has(model) && (begun.get(model)?.all.size ?? 0) >= Math.ceil(share * concurrency);
  }

  return {
    begin(model, isHeard) {
      const call = { at: now() };
      const calls = begun.get(model) ?? { all: new Set(), heard: new Set() };
      begun.set(model, calls);
      calls.all.add(call);
      if (isHeard) calls.heard.add(call);
      return (isAnswered) => {
        calls.heard.delete(call);
        if (calls.all.delete(call) && isAnswered) answeredAt.set(model, now());
      };
    },
    isCrowded,
    isSilent(model) {
      const [oldest] = begun.get(model)?.heard ?? [];
      if (oldest === undefined || !isCrowded(model)) return false;
      return now() - Math.max(oldest.at, answeredAt.get(model) ?? oldest.at) > silentShare * firstTokenMs;
    },
  };
}
