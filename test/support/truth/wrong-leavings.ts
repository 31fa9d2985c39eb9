import type { UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import { countPromptTokens, countTokens } from '../../../workers/chat-answers/count-tokens.ts';
import { type Asked, answerTo, questionOf } from './ask.ts';
import type { BackendCall, Evidence } from './contradictions.ts';

/** A client that does not hear the end of its request: it left, or its ingress was killed. */
export type Gone = Extract<Asked, { ending: 'left' | 'broken' }>;

/** What is sent when a connection ends may have arrived, and the model server does not count it. */
const tokensUnderWay = 1;

/** The clients that are gone, each with the id of its request: one that had no header yet knows it by the call it led to. */
export function goneIn({ asked, calls }: Pick<Evidence, 'asked' | 'calls'>): Gone[] {
  const ids = new Map(calls.map(({ body, requestId }) => [questionOf(body), requestId]));
  return asked
    .filter((one) => one.ending === 'left' || one.ending === 'broken')
    .map((one) => ({ ...one, requestId: one.requestId ?? ids.get(one.question) }));
}

/**
 * What is charged wrongly of those whose clients are gone, in words. A whole answer: its prompt, and nothing where no
 * backend was being called, be it that those which were had failed. A stream: what the worker had received, which is no less than what the client got, and no more than what
 * its model server sent.
 */
export async function wrongLeavingsIn({ asked, calls, records }: Evidence): Promise<string[]> {
  const callsOf = Map.groupBy(calls, ({ requestId }) => requestId ?? '');
  const wrong = goneIn({ asked, calls }).map(async (gone) => {
    const record = records.get(gone.requestId ?? '');
    // One that has none called no backend, or that would be known by the call.
    if (record === undefined || record.outcome === 'completed' || record.outcome === 'lost') return [];
    const made = callsOf.get(record.requestId) ?? [];
    if (await isCharged({ gone, record, calls: made })) return [];
    return [
      `${gone.requestId}: is not charged as one whose client is gone: ${JSON.stringify({ gone, record, calls: made })}`,
    ];
  });
  return (await Promise.all(wrong)).flat();
}

type Case = { gone: Gone; record: UsageRecord; calls: readonly BackendCall[] };

async function isCharged({ gone, record, calls }: Case): Promise<boolean> {
  const { promptTokens, completionTokens, counted, outcome } = record;
  if (counted === 'reported') {
    return calls.some((call) => call.promptTokens === promptTokens && call.completionTokens === completionTokens);
  }
  const prompt = await countPromptTokens(JSON.stringify({ messages: [{ content: gone.question }] }));
  if (completionTokens > 0) {
    // An ingress that ends a stream for a worker which died has its own estimate of the prompt.
    const isPrompt = outcome === 'failed' ? promptTokens > 0 : promptTokens === prompt;
    return gone.stream && isPrompt && (await isReceived({ gone, record, calls }));
  }
  const lastCall = record.attempts.findLast(({ run }) => run === record.runs);
  const wasCalling = outcome === 'cancelled' && lastCall?.outcome === 'stopped';
  return gone.text === '' && promptTokens === (wasCalling ? prompt : 0);
}

/** By the tokenizer, or token for token where the ingress has counted what it delivered. */
async function isReceived({ gone, record, calls }: Case): Promise<boolean> {
  const answer = answerTo(gone.question);
  const sent = Math.max(...calls.map((call) => call.completionTokens)) + tokensUnderWay;
  const { completionTokens } = record;
  for (let tokens = 1; tokens <= Math.min(sent, answer.length); tokens += 1) {
    const received = answer.slice(0, tokens).join('');
    if (received.length < gone.text.length) continue;
    if (record.outcome === 'failed' && completionTokens === tokens) return true;
    if ((await countTokens(received)) === completionTokens) return true;
  }
  return false;
}
