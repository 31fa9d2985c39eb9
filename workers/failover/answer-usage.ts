import type { ReportedUsage } from '../../shared/endpoints/definition/answer-format.ts';
import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { TokenUsage } from '../../shared/jobs/replies.ts';
import type { UsageReport } from '../../shared/jobs/usage-outbox.ts';
import { countPromptTokens, countTokens } from './count-tokens.ts';
import type { RunLedger } from './run.ts';

type Text = { sample: string; characters: number };

/**
 * The usage that the backend reported, as far as it is a report of all, else counted by tokenizer and marked as estimated. Beside text,
 * zero is none. Of several choices or prompts some servers report one only, so the larger count is charged
 * (contract.md#ms11-reported-usage).
 */
export async function usageOf(
  job: QueuedCall,
  reported: ReportedUsage | undefined,
  text: () => Text,
): Promise<TokenUsage> {
  if (reported === undefined) return (await countUsage(job, text())).usage;
  const { promptTokens, completionTokens, cachedTokens } = reported;
  const { isFree } = endpointAt(job.endpoint).request;
  const prompts = promptsOf(job);
  const isPromptWhole = isFree || (promptTokens > 0 && prompts === 1);
  const isOutputWhole = job.choices === 1 && reported.isPartial === undefined && completionTokens > 0;
  const written = text();
  if (isPromptWhole && (isOutputWhole || written.characters === 0))
    return { promptTokens, completionTokens, cachedTokens, estimated: false };
  const { usage: own, counted } = await countUsage(job, written);
  // Several prompts are counted with a separator between them, which can be a token.
  const ofPrompts = promptTokens > 0 ? Math.max(promptTokens, counted - (prompts - 1)) : own.promptTokens;
  const prompt = isPromptWhole ? promptTokens : ofPrompts;
  const output = isOutputWhole ? completionTokens : Math.max(completionTokens, own.completionTokens);
  const estimated = prompt !== promptTokens || output !== completionTokens;
  return { promptTokens: prompt, completionTokens: output, cachedTokens, estimated };
}

/** `counted`: the tokens of the prompt by tokenizer. More of them may be charged. */
async function countUsage(
  job: QueuedCall,
  { sample, characters }: Text,
): Promise<{ usage: TokenUsage; counted: number }> {
  const all = Math.ceil((await countTokens(sample)) * Math.max(1, characters / Math.max(1, sample.length)));
  const { counted, charged } = await countPrompt(job);
  const repeats = endpointAt(job.endpoint).request.repeatsOfPrompt?.(job.payload) ?? 0;
  const completionTokens = Math.max(0, all - repeats * counted);
  return { usage: { ...noTokens, promptTokens: charged, completionTokens }, counted };
}

/** The payload is parsed only if several choices were asked for, each of which can be of a prompt of its own. */
export function promptsOf({ endpoint, payload, choices }: QueuedCall): number {
  return choices === 1 ? 1 : (endpointAt(endpoint).request.promptsIn?.(JSON.parse(payload)) ?? 1);
}

/** The usage of the prompt only, counted by tokenizer. */
export async function promptUsage(job: QueuedCall): Promise<TokenUsage> {
  return { ...noTokens, promptTokens: (await countPrompt(job)).charged };
}

/**
 * The usage of an answer of which nothing is known: the prompt, and all that was reserved for the output
 * (contract.md#ho5-proof-of-usage).
 */
export async function unknownUsage(job: QueuedCall): Promise<TokenUsage> {
  const choices = endpointAt(job.endpoint).request.choicesOf?.(JSON.parse(job.payload)) ?? 1;
  return { ...(await promptUsage(job)), completionTokens: job.outputTokensMax * choices };
}

/**
 * The tokens of the prompt by tokenizer, and those that are charged: at least half of what admission has estimated, because a prompt can
 * also be what the tokenizer does not read (contract.md#ho5-proof-of-usage).
 */
async function countPrompt(job: QueuedCall): Promise<{ counted: number; charged: number }> {
  if (endpointAt(job.endpoint).request.isFree) return { counted: 0, charged: 0 };
  const counted = await countPromptTokens(job);
  return { counted, charged: Math.max(counted, Math.ceil(job.promptEstimate / 2)) };
}

type EndedRun = {
  job: Pick<QueuedCall, 'keyId' | 'model' | 'requestedModel' | 'tier' | 'endpoint' | 'earlierRuns'> & { plan: string };
  /** The batch that the request is a line of. */
  batch: string | null;
  run: number;
  ledger: RunLedger;
};

/** How a request ended. `code` and `status`: of the error that its client got. */
export type ReportedEnd = Pick<UsageReport, 'outcome' | 'code' | 'status'>;

export const noTokens: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0, estimated: true };

/** The content of a request's usage record, by the run that ends it (contract.md#n13-failed-answers). */
export function usageReport(
  { job, batch, run, ledger }: EndedRun,
  { outcome, code, status }: ReportedEnd,
  usage: TokenUsage,
): UsageReport {
  const { keyId, plan, model, requestedModel, tier, endpoint, earlierRuns } = job;
  const { promptTokens, completionTokens, cachedTokens, estimated } = usage;
  const answerId = ledger.answerId();
  return {
    keyId,
    plan,
    model,
    ...(requestedModel !== undefined && { requestedModel }),
    tier,
    endpoint,
    batch,
    promptTokens,
    completionTokens,
    cachedTokens,
    counted: estimated ? 'estimated' : 'reported',
    outcome,
    ...(code !== undefined && { code }),
    ...(status !== undefined && { status }),
    ...ledger.timing(),
    ...(answerId !== undefined && { answerId }),
    attempts: [...earlierRuns.flatMap(({ attempts }) => attempts), ...ledger.attempts()],
    endedRuns: [...earlierRuns.map((earlier) => earlier.run), run],
  };
}
