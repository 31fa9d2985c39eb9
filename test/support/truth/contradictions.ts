import { isDeepStrictEqual } from 'node:util';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { endpointAt } from '../../../shared/endpoints/endpoints.ts';
import type { UsageAttempt, UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import type { Call } from '../../stack/model-server.ts';
import { type AskedRequest, answerTo, questionOf } from './ask.ts';

export type BackendCall = Call & { backend: string };

/** The results of clients, the calls of model servers, the entries of the outboxes, and the records of the store by request. */
export type Evidence = {
  asked: readonly AskedRequest[];
  calls: readonly BackendCall[];
  events: readonly UsageRecord[];
  records: ReadonlyMap<string, UsageRecord>;
};

/** Every contradiction between two of these, in words. Empty if all agree. */
export function contradictionsIn({ asked, calls, events, records }: Evidence): string[] {
  const callsOf = Map.groupBy(calls, ({ requestId }) => requestId ?? '');
  return [
    ...wrongEvents(events, records),
    ...asked.flatMap((one) => wrongAnswer(one, records)),
    ...[...callsOf].flatMap(([requestId, made]) => wrongCalls(requestId, made, records.get(requestId))),
    ...[...records.values()].flatMap((record) => wrongCharge(record, callsOf.get(record.requestId) ?? [])),
  ];
}

function wrongEvents(events: Evidence['events'], records: Evidence['records']): string[] {
  const of = Map.groupBy(events, ({ requestId }) => requestId);
  const repeated = [...of].filter(([, { length }]) => length > 1).map(([id, { length }]) => `${id}: ${length} events`);
  const unlike = events
    .filter((event) => !isDeepStrictEqual(event, records.get(event.requestId)))
    .map((event) => `${event.requestId}: the store has ${show(records.get(event.requestId))} for ${show(event)}`);
  const withoutEvent = [...records.keys()].filter((id) => !of.has(id)).map((id) => `${id}: a record without an event`);
  return [...repeated, ...unlike, ...withoutEvent];
}

function wrongAnswer(asked: AskedRequest, records: Evidence['records']): string[] {
  if (asked.ending === 'malformed') return [`${asked.requestId}: ${show(asked)}`];
  if ('text' in asked && !isText(asked)) return [`${asked.requestId}: got another text: ${show(asked)}`];
  if (asked.ending !== 'answered') return [];
  const { requestId = 'no request id', usage } = asked;
  const record = records.get(requestId);
  if (record?.outcome !== 'completed') return [`${requestId}: was answered, and its record is ${show(record)}`];
  const { promptTokens, completionTokens } = record;
  if (usage === undefined || isDeepStrictEqual(usage, { promptTokens, completionTokens })) return [];
  return [`${requestId}: the client got ${show(usage)}, the record says ${show(record)}`];
}

/** Whether the text is the complete answer, or its beginning if the request did not complete. */
function isText({ ending, text, ...asked }: Extract<AskedRequest, { text: string }>): boolean {
  const answer = answerTo(asked).join('');
  return ending === 'answered' ? text === answer : answer.startsWith(text);
}

/** A run may call a backend in each of its rounds over the backends. */
const roundsMax = 2;

/**
 * Each call is the charged one, a failed attempt, or one of a lost run. Calls that find a backend busy are one attempt together, of which a
 * lost run leaves nothing.
 */
function wrongCalls(requestId: string, calls: readonly BackendCall[], record: UsageRecord | undefined): string[] {
  if (record === undefined) return [`${requestId}: no record of ${calls.length} calls: ${show(calls[0])}`];
  const lostRuns = record.attempts.filter(({ outcome }) => outcome === 'lost').length;
  return [...Map.groupBy(calls, ({ backend }) => backend)].flatMap(([backend, made]) => {
    const attempts = record.attempts.filter((attempt) => attempt.backend === backend);
    const foundBusy = lostRuns > 0 || attempts.some(({ outcome }) => outcome === 'busy');
    const counted = foundBusy ? made.filter(({ status }) => status !== 429) : made;
    const recorded = foundBusy ? attempts.filter(({ outcome }) => outcome !== 'busy') : attempts;
    if (counted.length <= recorded.length + lostRuns * roundsMax) return [];
    return [
      `${requestId}: ${backend} was called ${made.length} times (${made.map(({ status }) => status)}), the record has ${attempts.length}: ${show(record)}`,
    ];
  });
}

function wrongCharge(record: UsageRecord, calls: readonly BackendCall[]): string[] {
  const { requestId, promptTokens, completionTokens, chargedTokens, counted } = record;
  const wrong: string[] = [];
  const is = (claim: boolean, what: string) => {
    if (!claim) wrong.push(`${requestId}: ${what}: ${show(record)}, calls ${show(calls)}`);
  };
  const answered = record.attempts.filter(({ outcome }) => outcome === 'answered');
  const isAnswered = record.outcome === 'completed';
  is(chargedTokens === promptTokens + completionTokens, 'is charged other tokens than it used');
  is(answered.length === (isAnswered ? 1 : 0), 'has as many answered attempts as answers');
  is(record.outcome !== 'lost' || chargedTokens === 0, 'is lost, but charged');
  if (counted === 'reported') is(producedBy(calls) >= chargedTokens, 'is charged more than was produced');
  if (counted === 'estimated') {
    is(promptTokens <= promptTokensMax(record, calls), 'is charged more than its prompt');
    is(completionTokens <= completionTokensMax(calls), 'is charged more than a model wrote');
  }
  if (isAnswered) is(answeringCall(record, calls, answered[0]) !== undefined, 'differs from the count of its backend');
  return wrong;
}

/** The tokens around the one message of a request, as shared/endpoints/chat/chat-request.ts counts them. */
const tokensPerMessage = 4;

/**
 * The maximum that is charged for a prompt whose tokens were not reported: what a worker counts of the message's text, at least half of
 * admission's estimate. An ingress, which settles requests of a failed worker, counts the complete body: no text has more tokens than
 * bytes. No call is needed for any of these.
 */
function promptTokensMax({ outcome }: UsageRecord, calls: readonly BackendCall[]): number {
  if (calls.length === 0) return Number.POSITIVE_INFINITY; // `chargedUncalled` checks those
  const ofCall = (call: BackendCall) => {
    const body = show(call.body);
    if (outcome === 'failed') return Buffer.byteLength(body);
    const asked = call.body as object; // model servers parse every body, and refuse others
    const estimate = endpointAt(call.path).request.estimatePrompt(asked, body);
    return Math.max(countTokens(questionOf(call) ?? '') + tokensPerMessage, Math.ceil(estimate / 2));
  };
  return Math.max(...calls.map(ofCall));
}

/** A word that is cut in the middle can have more tokens than the complete word. */
const cutWordTokens = 2;

/**
 * The maximum estimate of the output: one call's tokens, by the tokenizer or as its model server counts them. At most one call answers a
 * request, so calls do not add up.
 */
function completionTokensMax(calls: readonly BackendCall[]): number {
  const ofCall = (call: BackendCall) => {
    const { path, completionTokens } = call;
    if (completionTokens === 0) return 0;
    const pieces = answerTo({ path, question: questionOf(call) ?? '' });
    // An endless one repeats from the beginning.
    const written = Array.from({ length: completionTokens }, (_, index) => pieces[index % pieces.length]);
    return Math.max(completionTokens, countTokens(written.join('')) + cutWordTokens);
  };
  return Math.max(0, ...calls.map(ofCall));
}

function answeringCall(record: UsageRecord, calls: readonly BackendCall[], attempt: UsageAttempt | undefined) {
  const { promptTokens, completionTokens, counted } = record;
  const whole = calls.filter((call) => call.backend === attempt?.backend && hasAnswered(call));
  if (counted === 'estimated') return whole[0];
  return whole.find((call) => call.promptTokens === promptTokens && call.completionTokens === completionTokens);
}

/** Also if the client left, and ended the call, between the last token and the end of the stream. */
function hasAnswered(call: BackendCall): boolean {
  const { state, path, completionTokens } = call;
  const question = questionOf(call);
  if (question === undefined || completionTokens === 0) return state === 'completed';
  return state === 'completed' || completionTokens >= answerTo({ path, question }).length;
}

export function producedBy(calls: readonly Call[]): number {
  return calls.reduce((sum, { promptTokens, completionTokens }) => sum + promptTokens + completionTokens, 0);
}

function show(value: unknown): string {
  return JSON.stringify(value) ?? 'missing';
}
