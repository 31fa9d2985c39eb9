import test from 'ava';
import type { ReportedUsage } from '../../../shared/endpoints/definition/answer-format.ts';
import type { InferenceJob } from '../../../shared/jobs/inference-job.ts';
import type { CallBackend } from '../../../workers/backend-client/call-backend.ts';
import { answerStream, answerWhole, type RunAnswer } from '../../../workers/failover/answer-request.ts';
import { promptsOf, usageOf } from '../../../workers/failover/answer-usage.ts';
import { countPromptTokens, countTokens } from '../../../workers/failover/count-tokens.ts';
import { textOfBody } from '../../../workers/replies/send-pieces.ts';
import { roomFor } from '../../support/answer-room.ts';
import { jobFor } from '../../support/worker-side.ts';

const completions = '/v1/completions';
const written = 'Some words that the model wrote. '.repeat(20);
const asked = { messages: [{ role: 'user', content: 'Tell me something about the Rhine.' }] };
const jobOf = (given: Partial<InferenceJob>) => jobFor('no stream', { payload: JSON.stringify(asked), ...given });
const read = (promptTokens: number, completionTokens: number, more: Partial<ReportedUsage> = {}): ReportedUsage => ({
  ...{ promptTokens, completionTokens, cachedTokens: 0 },
  ...more,
});
const used = (job: InferenceJob, reported: ReportedUsage | undefined, text = written) =>
  usageOf(job, reported, () => ({ sample: text, characters: text.length }));

test('of one choice and one prompt, a report counts exactly as it is, however little or much it is', async (t) => {
  for (const reported of [read(1, 1), read(7, 3, { cachedTokens: 5 }), read(5_000, 4_000)]) {
    const { promptTokens, completionTokens, cachedTokens } = reported;
    const expected = { promptTokens, completionTokens, cachedTokens, estimated: false };
    t.deepEqual(await used(jobOf({}), reported), expected);
    t.deepEqual(await used(jobOf({}), reported, ''), expected);
  }
});

test('zero beside text is no report of what was written, and zero for a prompt is none of the prompt', async (t) => {
  const output = await countTokens(written);
  const prompt = await countPromptTokens(jobOf({}));
  t.true(output > 100 && prompt > 5);
  const cases: [ReportedUsage | undefined, number, number][] = [
    [undefined, prompt, output],
    [read(0, 0), prompt, output],
    [read(1_000, 0), 1_000, output],
    [read(0, 5), prompt, 5],
  ];
  for (const [reported, promptTokens, completionTokens] of cases)
    t.deepEqual(await used(jobOf({}), reported), { promptTokens, completionTokens, cachedTokens: 0, estimated: true });
  t.like(await used(jobOf({}), read(7, 0), ''), { promptTokens: 7, completionTokens: 0, estimated: false });
});

test('without a report of the prompt, at least half of what admission has estimated is charged', async (t) => {
  t.is((await used(jobOf({ promptEstimate: 9_000 }), read(0, 5))).promptTokens, 4_500);
});

test('if text came after the report, the larger count is charged', async (t) => {
  const output = await countTokens(written);
  const partial = (tokens: number) => used(jobOf({}), read(7, tokens, { isPartial: true }));
  t.like(await partial(1), { promptTokens: 7, completionTokens: output, estimated: true });
  t.like(await partial(4_000), { promptTokens: 7, completionTokens: 4_000, estimated: false });
});

test('of several choices the larger of the report and our count is charged, and the prompt as it was reported', async (t) => {
  const job = jobOf({ payload: JSON.stringify({ ...asked, n: 4 }), choices: 4 });
  const output = await countTokens(written);
  t.like(await used(job, read(3, 10)), { promptTokens: 3, completionTokens: output, estimated: true });
  t.like(await used(job, read(3, output + 50)), { promptTokens: 3, completionTokens: output + 50, estimated: false });
});

test('of several prompts the larger count of the prompts is charged, too', async (t) => {
  const prompt = ['Tell me something about the Rhine.', 'And about the Danube, please.'];
  const job = jobOf({ endpoint: completions, payload: JSON.stringify({ prompt }), choices: 2, promptEstimate: 9_000 });
  const counted = await countPromptTokens(job);
  t.is(promptsOf(job), 2);
  t.like(await used(job, read(3, 10_000)), { promptTokens: counted - 1, completionTokens: 10_000, estimated: true });
  t.like(await used(job, read(counted + 9, 10_000)), { promptTokens: counted + 9, estimated: false });
  t.is(promptsOf(jobOf({ endpoint: completions, payload: JSON.stringify({ prompt: 'a', n: 3 }), choices: 3 })), 1);
});

test('a count of tokens is free', async (t) => {
  const job = jobOf({ endpoint: '/v1/messages/count_tokens' });
  t.like(await used(job, read(0, 0), ''), { promptTokens: 0, completionTokens: 0, estimated: false });
});

/** Answers as a worker does, with a backend that sends these events. */
async function answered(
  events: readonly object[],
  given: Partial<InferenceJob>,
): Promise<RunAnswer & { sent: string }> {
  const callBackend: CallBackend = {
    whole: () => Promise.reject(new Error('a whole answer was asked for')),
    async stream(_call, { take }) {
      for (const event of events) if (await take(JSON.stringify(event))) return 'cut';
      await take('[DONE]');
      return 'done';
    },
  };
  const call = {
    ...{
      backend: { url: 'http://127.0.0.1:1/v1', location: 'on-prem' as const },
      path: '/chat/completions',
      headers: {},
    },
    ...{ apiKey: undefined, requestId: 'r', body: '', room: roomFor(), signal: AbortSignal.timeout(30_000) },
    ...{ onHead() {}, onToken() {}, isBusy: () => false },
  };
  let sent = '';
  const reply = {
    async chunk(ready: string) {
      sent += ready;
    },
  };
  const job = jobOf({ assembled: given.stream !== true, ...given });
  const answer = await (job.stream ? answerStream : answerWhole)({
    ...{ job, call, callBackend, reply, onCalling() {}, onFirstToken() {} },
  });
  return { ...answer, sent: sent + (answer.finalEvents ?? '') + textOfBody(answer.body ?? '') };
}

const chunk = (delta: object, index = 0, finish_reason: string | null = null) => ({
  ...{ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'medium-chat' },
  choices: [{ index, delta, finish_reason }],
});
const usageOnly = (prompt_tokens: number, completion_tokens: number) => ({
  ...{ id: 'x', model: 'medium-chat', choices: [] },
  usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
});

for (const stream of [true, false]) {
  const kind = stream ? 'streamed' : 'assembled';

  test(`${kind}: four choices of which the backend reports one are charged for all, and no longer answer is cut`, async (t) => {
    const words = 'word '.repeat(50);
    const events = [...[0, 1, 2, 3].map((index) => chunk({ content: words }, index, 'length')), usageOnly(9, 50)];
    const body = JSON.stringify({ ...asked, n: 4 });
    const { usage, isOverLimit, sent } = await answered(events, {
      stream,
      payload: body,
      choices: 4,
      outputTokensMax: 50,
    });
    t.like(usage, { promptTokens: 9, completionTokens: 200, estimated: true }, 'at most the limit of each');
    t.false(isOverLimit);
    t.is(sent.split(words).length, 5);
  });

  test(`${kind}: an image of 1 MB or encrypted reasoning arrives whole, and is charged as it was reported`, async (t) => {
    const url = `data:image/png;base64,${'iVBORw0KGgoA'.repeat(90_000)}`;
    const parts = [
      { images: [{ type: 'image_url', image_url: { url } }] },
      { reasoning_details: [{ type: 'reasoning.encrypted', data: 'QUJD'.repeat(20_000), index: 0 }] },
      { content: `![it](${url})` },
    ];
    for (const part of parts) {
      const events = [
        chunk({ role: 'assistant', ...part }),
        chunk({ content: ' it is.' }, 0, 'stop'),
        usageOnly(7, 1_300),
      ];
      const { usage, isOverLimit, sent } = await answered(events, { stream, outputTokensMax: 2_000 });
      t.deepEqual(usage, { promptTokens: 7, completionTokens: 1_300, cachedTokens: 0, estimated: false });
      t.false(isOverLimit);
      t.true(sent.includes(JSON.stringify(part).slice(1, -2)), 'it arrives whole');
      t.true(sent.includes('"finish_reason":"stop"'));
    }
  });

  test(`${kind}: a backend that reports no tokens beside endless text is cut by our count`, async (t) => {
    const events = Array.from({ length: 2_000 }, () => ({
      ...chunk({ content: ' word' }),
      usage: usageOnly(7, 0).usage,
    }));
    const { usage, isOverLimit, sent } = await answered(events, { stream, outputTokensMax: 10 });
    t.true(isOverLimit);
    t.is(usage.completionTokens, 10);
    t.true(sent.length < 400 * 300, `${sent.length}`);
    t.true(sent.includes('"finish_reason":"length"'));
  });
}
