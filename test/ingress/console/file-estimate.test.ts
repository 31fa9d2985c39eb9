import test from 'ava';
import type { Api } from '../../../ingress/console/api/api.ts';
import { ApiFailure } from '../../../ingress/console/api/api-failure.ts';
import {
  costWords,
  faultsOf,
  monthWords,
  readPlanFacts,
  sampleFile,
} from '../../../ingress/console/batches/file-estimate.ts';
import { readPreview } from '../../../ingress/console/batches/read-preview.ts';
import type { Model } from '../../../ingress/routes/models.ts';
import { exampleQuota } from '../../../ingress/routes/quota.ts';
import { lineOf } from '../../support/batch-client.ts';

const { signal } = new AbortController();
const price = { prompt: '1000', cached: '1000', completion: '2000', currency: 'EUR' };
const model: Model = {
  id: 'small-chat',
  object: 'model',
  created: 0,
  owned_by: 'service',
  tier: 't',
  endpoints: ['chat'],
};
const priced = { ...model, price };

/** 100 tokens of prompts and at most 40 of answers for each of two models, and a line of a model that there is not. */
const lines = [
  lineOf('1', { content: 'word '.repeat(80), maxTokens: 40 }),
  lineOf('2', { content: 'word '.repeat(80), maxTokens: 40, model: 'alias' }),
  lineOf('3', { content: 'x', model: 'nope' }),
];
const previewOf = (...each: string[]) => readPreview(new Blob([each.join('\n')]), signal);

test('models that are not listed are asked for, so that an alias is no fault', async (t) => {
  const asked: string[] = [];
  const call = async (path: string) => {
    asked.push(path);
    if (path === '/v1/models') return { data: [priced] };
    if (path === '/billing/quota') return exampleQuota;
    if (path === '/v1/models/alias') return priced;
    throw new ApiFailure('none', { code: 'NOT_FOUND', status: 404 });
  };
  const preview = await previewOf(...lines);
  const facts = await readPlanFacts({ call } as Pick<Api, 'call'>, preview, signal);
  t.deepEqual(facts.unknown, ['nope']);
  t.deepEqual(asked.toSorted(), ['/billing/quota', '/v1/models', '/v1/models/alias', '/v1/models/nope']);
  t.deepEqual(faultsOf(preview, facts.unknown), [
    { line: 3, message: 'body.model: your plan has no model "nope"', isOfForm: false },
  ]);
  const twice = await previewOf('{', lineOf('a', { model: 'nope' }), lineOf('b', { model: 'nope' }));
  t.deepEqual(
    faultsOf(twice, ['nope']).map(({ line, message }) => [line, message]),
    [
      [1, 'this is not a JSON object'],
      [2, 'body.model: your plan has no model "nope" (2 lines)'],
    ],
  );
});

test('the cost is that of the prompts, up to that of the longest answers, if each model has a price', async (t) => {
  const one = await previewOf(lines[0] ?? '');
  const plan = { models: [priced], unknown: ['nope'] };
  t.is(costWords(one, plan), '0.10 to 0.18 EUR');
  t.is(
    costWords(await previewOf(lines[0] ?? '', lines[2] ?? ''), plan),
    '0.10 to 0.18 EUR',
    'an unknown model costs nothing',
  );
  t.is(costWords(await previewOf(...lines), plan), undefined, 'the alias has no price here');
  t.is(costWords(one, { ...plan, models: [model] }), undefined);
  const open = JSON.parse(lines[0] ?? '') as { body: { max_tokens?: number } };
  delete open.body.max_tokens;
  t.is(costWords(await previewOf(JSON.stringify(open)), plan), '0.10 EUR and the answers');
});

test('it says whether the month suffices', async (t) => {
  const preview = await previewOf(lines[0] ?? '');
  const words = (remaining: number | null, overageEnabled = false) =>
    monthWords(preview, { ...exampleQuota, remaining, overageEnabled });
  t.is(words(null), undefined);
  t.deepEqual(words(140), { words: 'Your month suffices: 140 tokens of this month are left.', isEnough: true });
  t.like(words(139), { isEnough: false });
  t.regex(words(100)?.words ?? '', /may not suffice for the answers: 100 tokens .* Top up, or turn overage on\./);
  t.regex(words(99)?.words ?? '', /does not suffice for the prompts/);
  t.like(words(99, true), { isEnough: true });
});

test('the sample has three lines with a model of the plan, and no faults', async (t) => {
  const sample = sampleFile([{ ...model, id: 'embed', endpoints: ['embeddings'] }, model]) ?? '';
  t.like(await previewOf(sample), { lines: 3, endpoint: '/v1/chat/completions', faults: [], models: [{ lines: 3 }] });
  t.is(sampleFile([]), undefined);
});
