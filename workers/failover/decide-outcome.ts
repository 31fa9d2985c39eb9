import type { BackendError, ErrorContent } from '../../shared/endpoints/answers/backend-error.ts';
import type { Evidence } from '../backends/evidence.ts';
import { busyRules } from './busy-rules.ts';
import { connectionRules } from './connection-rules.ts';
import { contextRules } from './context-rules.ts';
import { knownKinds, statusIn } from './kinds.ts';
import { operatorRules } from './operator-rules.ts';
import type { Outcome } from './outcome.ts';
import { requestRules } from './request-rules.ts';
import { type AttemptFailure, matches, type Rule } from './rule.ts';
import { statusRules } from './status-rules.ts';

/** In this order: the first that matches decides. */
export const rules: readonly Rule[] = [
  ...connectionRules,
  ...operatorRules,
  ...contextRules,
  ...requestRules,
  ...busyRules,
  ...statusRules,
];

/**
 * What came of an attempt without an answer. `rule`: the one that decided. `words` are the backend's, as it wrote them. The numbers are
 * what it said: `retryAfterMs` not to call it, `contextTokens` its context, `promptTokens` those of the request. `limitField`: the field of
 * the output limit that it refuses.
 */
export type Decision = {
  outcome: Exclude<Outcome, 'answered'>;
  rule: string;
  status: number | undefined;
  /** Codes and types of the error that are of a known vocabulary. */
  kinds: readonly string[];
  words: string;
  param?: string | undefined;
  evidence?: Evidence | undefined;
  isLoss: boolean;
  retryAfterMs?: number | undefined;
  contextTokens?: number | undefined;
  promptTokens?: number | undefined;
  limitField?: string | undefined;
};

/** Decides what a call without an answer means. `hasText`: text of its answer was sent to the client. */
export function decideOutcome(error: BackendError, { hasText }: { hasText: boolean }): Decision {
  const { fault, said, retryAfterMs, wasSent } = error;
  const kinds = said?.kinds ?? [];
  const words = said?.words ?? '';
  const status = error.status ?? (said && statusIn(said));
  return decide({ fault, status, kinds, words, retryAfterMs, wasSent, hasText }, said);
}

/** The decision by the tables. */
export function decide(
  came: AttemptFailure,
  said?: Pick<ErrorContent, 'param' | 'promptTokens' | 'contextTokens'>,
): Decision {
  const { kinds = [], words = '', status, retryAfterMs } = came;
  const rule = rules.find((each) => matches(each, came));
  if (rule === undefined) throw new Error(`no rule for ${came.fault}`); // the last ones match everything
  const named = rule.sentence?.exec(words)?.groups ?? {};
  return {
    outcome: rule.outcome as Decision['outcome'],
    rule: rule.id, // no rule is for answers
    status,
    kinds: kinds.filter((kind) => shownKinds.has(kind)),
    words,
    param: said?.param,
    evidence: rule.evidence,
    isLoss: rule.isLoss ?? false,
    retryAfterMs,
    contextTokens: said?.contextTokens ?? numberOf(named.context),
    promptTokens: said?.promptTokens ?? numberOf(named.prompt),
    limitField: named.field?.toLowerCase(),
  };
}

function numberOf(text: string | undefined): number | undefined {
  const number = Number(text?.replaceAll(',', '') ?? Number.NaN);
  return Number.isSafeInteger(number) && number > 0 ? number : undefined;
}

/** Also those that the rules name. */
const shownKinds = new Set([...knownKinds, ...rules.flatMap(({ kinds = [] }) => kinds)]);
