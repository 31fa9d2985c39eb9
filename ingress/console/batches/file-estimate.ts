import type { Model } from '../../routes/models.ts';
import type { Quota } from '../../routes/quota.ts';
import type { Api } from '../api/api.ts';
import { ApiFailure } from '../api/api-failure.ts';
import { formatCost, formatCount } from '../page/format.ts';
import type { LineFault, Preview } from './read-preview.ts';

/** What the plan of the account says of a file: the models that it offers, those of the file that it does not have, and its month. */
export type PlanFacts = { models: readonly Model[]; unknown: readonly string[]; quota: Quota };

const namesAskedMax = 20;

/** Aliases are not listed: each name that is not listed is asked for, up to twenty. */
export async function readPlanFacts(api: Pick<Api, 'call'>, preview: Preview, signal: AbortSignal): Promise<PlanFacts> {
  const [{ data: models }, quota] = await Promise.all([
    api.call<{ data: Model[] }>('/v1/models', { signal }),
    api.call<Quota>('/billing/quota', { signal }),
  ]);
  const listed = new Set(models.map(({ id }) => id));
  const others = preview.models.map(({ name }) => name).filter((name) => !listed.has(name));
  const asked = await Promise.all(
    others.slice(0, namesAskedMax).map(async (name) => ((await isModel(api, name, signal)) ? [] : [name])),
  );
  return { models, unknown: asked.flat(), quota };
}

async function isModel(api: Pick<Api, 'call'>, name: string, signal: AbortSignal): Promise<boolean> {
  try {
    await api.call<Model>(`/v1/models/${encodeURIComponent(name)}`, { signal });
    return true;
  } catch (error) {
    if (error instanceof ApiFailure && error.status === 404) return false;
    throw error;
  }
}

/** The faults of a file, in the order of its lines: one for each model that the plan does not have. */
export function faultsOf({ faults, models }: Preview, unknown: readonly string[]): LineFault[] {
  const ofModels = models
    .filter(({ name }) => unknown.includes(name))
    .map(({ name, line, lines }) => {
      const more = lines === 1 ? '' : ` (${formatCount(lines)} lines)`;
      return { line, message: `body.model: your plan has no model "${name}"${more}`, isOfForm: false };
    });
  return [...faults, ...ofModels].toSorted((one, other) => one.line - other.line);
}

/** `0.02 to 0.40 USD`: of the prompts, and of answers that are as long as their lines allow. Undefined if a model has no price. */
export function costWords({ models }: Preview, plan: Pick<PlanFacts, 'models' | 'unknown'>): string | undefined {
  let [prompts, answers, currency]: [number, number | undefined, string] = [0, 0, ''];
  for (const { name, tokens, answerTokensMax } of models) {
    if (plan.unknown.includes(name)) continue;
    const price = plan.models.find(({ id }) => id === name)?.price;
    if (price === undefined) return undefined;
    currency = price.currency;
    prompts += (tokens * Number(price.prompt)) / million;
    const most = answerTokensMax === undefined ? undefined : (answerTokensMax * Number(price.completion)) / million;
    answers = answers === undefined || most === undefined ? undefined : answers + most;
  }
  if (currency === '') return undefined;
  const least = formatCost(prompts, currency);
  if (answers === undefined) return `${least} and the answers`;
  const most = formatCost(prompts + answers, currency);
  return least === most ? least : `${least.replace(` ${currency}`, '')} to ${most}`;
}

const million = 1_000_000;

/** The most tokens of all answers; undefined if a line has no limit. */
export function answerTokensOf({ models }: Preview): number | undefined {
  return models.reduce<number | undefined>(
    (sum, { answerTokensMax }) =>
      sum === undefined || answerTokensMax === undefined ? undefined : sum + answerTokensMax,
    0,
  );
}

type MonthWords = { words: string; isEnough: boolean };

/** Whether the tokens of the month suffice. Undefined if it has no limit. */
export function monthWords(preview: Preview, { remaining, overageEnabled }: Quota): MonthWords | undefined {
  if (remaining === null) return undefined;
  const left = `${formatCount(remaining)} tokens of this month are left`;
  const answers = answerTokensOf(preview);
  if (answers !== undefined && preview.tokens + answers <= remaining)
    return { words: `Your month suffices: ${left}.`, isEnough: true };
  const beyond = overageEnabled ? 'The rest is overage.' : 'Top up, or turn overage on.';
  if (preview.tokens > remaining)
    return { words: `Your month does not suffice for the prompts: ${left}. ${beyond}`, isEnough: overageEnabled };
  return { words: `Your month may not suffice for the answers: ${left}. ${beyond}`, isEnough: overageEnabled };
}

const questions = ['Say hello in French.', 'What is the capital of Japan?', 'Write a sentence about the sea.'];

/** A file of three lines with a model of the plan, to begin with; undefined if it has no model for a conversation. */
export function sampleFile(models: readonly Model[]): string | undefined {
  const model = models.find(({ endpoints }) => endpoints.includes('chat'))?.id;
  if (model === undefined) return undefined;
  const lines = questions.map((content, index) => ({
    custom_id: `line-${index + 1}`,
    method: 'POST',
    url: '/v1/chat/completions',
    body: { model, max_tokens: 100, messages: [{ role: 'user', content }] },
  }));
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}
