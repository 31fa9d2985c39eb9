import { endpointAt } from '../../../shared/endpoints/endpoints.ts';
import type { UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import { countPromptTokens, countTokens } from '../../../workers/failover/count-tokens.ts';
import { formAt } from '../client-forms/every-form.ts';
import { type AskedRequest, answerTo, questionOf } from './ask.ts';
import type { BackendCall, Evidence } from './contradictions.ts';

/** A client that does not receive the end of its request: it left, or its ingress was killed. */
export type Gone = Extract<AskedRequest, { ending: 'left' | 'broken' }>;

/** Data sent when a connection ends may have arrived, and the model server does not count it. */
const tokensUnderWay = 1;

/** The clients that are gone, each with the id of its request. Without a header the id comes from the call of the request. */
export function goneIn({ asked, calls }: Pick<Evidence, 'asked' | 'calls'>): Gone[] {
  const ids = new Map(calls.map((call) => [questionOf(call), call.requestId]));
  return asked
    .filter((one) => one.ending === 'left' || one.ending === 'broken')
    .map((one) => ({ ...one, requestId: one.requestId ?? ids.get(one.question) }));
}

/**
 * Wrong charges of requests whose clients are gone, in words. It is charged what the worker had received: at least what the
 * client got, and at most what its model server sent. Nothing is charged if no backend was being called, even if earlier calls had failed.
 */
export async function wrongLeavingsIn({ asked, calls, records }: Evidence): Promise<string[]> {
  const callsOf = Map.groupBy(calls, ({ requestId }) => requestId ?? '');
  const wrong = goneIn({ asked, calls }).map(async (gone) => {
    const record = records.get(gone.requestId ?? '');
    // A request without an id called no backend, otherwise its call would have the id.
    if (record === undefined || record.outcome === 'completed' || record.outcome === 'lost') return [];
    const made = callsOf.get(record.requestId) ?? [];
    if (await isCharged({ gone, record, calls: made })) return [];
    return [
      `${gone.requestId}: wrong charge of a request whose client is gone: ${JSON.stringify({ gone, record, calls: made })}`,
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
  const asked = { model: '', stream: false, includeUsage: false, tokensMax: 1, question: gone.question };
  const sent = formAt(gone.path)?.bodyOf(asked) ?? {};
  const body = JSON.stringify(sent);
  const prompt = await countPromptTokens({ endpoint: gone.path, payload: body });
  // At least half of admission's estimate is charged, which depends on fields that are not known here.
  const most = Math.max(prompt, endpointAt(gone.path).request.estimatePrompt(sent, body));
  const isPromptCounted = promptTokens >= prompt && promptTokens <= most;
  if (completionTokens > 0) {
    // An ingress that ends the stream of a dead worker has its own estimate of the prompt.
    const isPrompt = outcome === 'failed' ? promptTokens > 0 : isPromptCounted;
    return isPrompt && (await isReceived({ gone, record, calls }));
  }
  const lastCall = record.attempts.findLast(({ run }) => run === record.runs);
  const wasCalling = outcome === 'cancelled' && lastCall?.outcome === 'stopped';
  return gone.text === '' && (wasCalling ? isPromptCounted : promptTokens === 0);
}

/** By the tokenizer, or token for token if the ingress has counted what it delivered. */
async function isReceived({ gone, record, calls }: Case): Promise<boolean> {
  const answer = answerTo(gone);
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
