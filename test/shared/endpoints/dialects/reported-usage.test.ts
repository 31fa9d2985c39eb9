import test from 'ava';
import type { ReportedUsage } from '../../../../shared/endpoints/definition/answer-format.ts';
import { endpointAt } from '../../../../shared/endpoints/endpoints.ts';
import { assembled, type Json, parsed, streamed } from '../../../support/endpoints/dialect.ts';
import { streamOptions } from '../../../support/stream-options.ts';

const chat = '/v1/chat/completions';
const completions = '/v1/completions';

const head = { id: 'x', object: 'y', created: 1, model: 'm' };
const of = (prompt_tokens: number, completion_tokens: number, more: Json = {}) => ({
  ...{ prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
  ...more,
});
const read = (promptTokens: number, completionTokens: number, cachedTokens = 0): ReportedUsage => ({
  ...{ promptTokens, completionTokens, cachedTokens },
});
const chunk = (choice: Json, more: Json = {}) => ({
  ...head,
  choices: [{ index: 0, delta: {}, text: '', finish_reason: null, ...choice }],
  ...more,
});
const says = (content: string, index = 0, more: Json = {}) => chunk({ index, delta: { content }, text: content }, more);
const ends = (index = 0, choice: Json = {}, more: Json = {}) =>
  chunk({ index, finish_reason: 'stop', ...choice }, more);
const text = [says('Hel'), says('lo'), says(' you')];
const beside = (fields: Json) => ({ ...head, ...fields });

/** Events of an answer with one choice; what is read of it. */
const streams: Record<string, [unknown[], ReportedUsage | undefined]> = {
  'in a chunk without choices': [[...text, ends(), beside({ choices: [], usage: of(7, 3) })], read(7, 3)],
  'in an event without any choices': [[...text, ends(), beside({ usage: of(700, 200) })], read(700, 200)],
  'in an event with null for choices': [
    [...text, ends(), beside({ choices: null, usage: of(700, 200) })],
    read(700, 200),
  ],
  'in an event that has nothing else': [[...text, ends(), { usage: of(700, 200) }], read(700, 200)],
  'before the first chunk, and at the end': [
    [beside({ usage: of(7, 0) }), ...text, ends(), beside({ usage: of(7, 3) })],
    read(7, 3),
  ],
  'between chunks, before the end': [[...text, beside({ usage: of(7, 3) }), ends()], read(7, 3)],
  'in the last chunk': [[...text, ends(0, {}, { usage: of(7, 3) })], read(7, 3)],
  'in every chunk': [
    [says('a', 0, { usage: of(7, 1) }), says('b', 0, { usage: of(7, 2) }), ends(0, {}, { usage: of(7, 2) })],
    read(7, 2),
  ],
  'in the choice': [[...text, ends(0, { usage: of(1_000, 50) })], read(1_000, 50)],
  'in the choice, and again at the end': [
    [...text, ends(0, { usage: of(1_000, 50) }), beside({ choices: [], usage: of(1_000, 51) })],
    read(1_000, 51),
  ],
  'first without tokens, then in the choice': [
    [beside({ usage: of(7, 0) }), ...text, ends(0, { usage: of(1_000, 50) })],
    read(1_000, 50),
  ],
  'in x_groq': [[...text, ends(0, {}, { x_groq: { id: 'req_1', usage: of(7, 3) } })], read(7, 3)],
  'in x_groq, without choices': [[...text, ends(), beside({ x_groq: { usage: of(7, 3) } })], read(7, 3)],
  'with cached tokens in details': [
    [...text, ends(), beside({ usage: of(1_000, 3, { prompt_tokens_details: { cached_tokens: 960 } }) })],
    read(1_000, 3, 960),
  ],
  'with cached tokens of Moonshot': [
    [...text, ends(), beside({ usage: of(1_000, 3, { cached_tokens: 960, prompt_tokens_details: null }) })],
    read(1_000, 3, 960),
  ],
  'with cached tokens of DeepSeek': [
    [...text, ends(), beside({ usage: of(1_000, 3, { prompt_cache_hit_tokens: 960, prompt_cache_miss_tokens: 40 }) })],
    read(1_000, 3, 960),
  ],
  'with more cached tokens than the prompt has': [
    [...text, ends(), beside({ usage: of(10, 3, { prompt_cache_hit_tokens: 960 }) })],
    read(10, 3, 10),
  ],
  'with reasoning in the total only': [
    [
      ...text,
      ends(),
      beside({ usage: of(32, 9, { total_tokens: 135, completion_tokens_details: { reasoning_tokens: 94 } }) }),
    ],
    read(32, 103),
  ],
  'with reasoning in the completion': [
    [...text, ends(), beside({ usage: of(32, 103, { completion_tokens_details: { reasoning_tokens: 94 } }) })],
    read(32, 103),
  ],
  'with a total that is larger without a reason': [
    [...text, ends(), beside({ usage: of(32, 9, { total_tokens: 135 }) })],
    read(32, 9),
  ],
  'with null in every optional value': [
    [
      ...text,
      ends(),
      beside({
        usage: of(7, 3, {
          ...{ total_tokens: null, prompt_tokens_details: null, completion_tokens_details: null },
          ...{ cached_tokens: null, prompt_cache_hit_tokens: null },
        }),
      }),
    ],
    read(7, 3),
  ],
  'with details of a wrong type': [
    [...text, ends(), beside({ usage: of(7, 3, { prompt_tokens_details: 5, cached_tokens: 'x', total_tokens: -1 }) })],
    read(7, 3),
  ],
  'before further text': [[beside({ usage: of(7, 1) }), ...text, ends()], { ...read(7, 1), isPartial: true }],
  'that cannot be read': [[...text, ends(), beside({ usage: 'many' })], undefined],
  nowhere: [[...text, ends(), beside({ choices: [], usage: null })], undefined],
};

for (const path of [chat, completions]) {
  for (const [title, [events, expected]] of Object.entries(streams)) {
    test(`${path}: usage ${title}`, (t) => {
      const given = [...events, '[DONE]'];
      const { usage, complete, events: sent } = streamed(path, given);
      t.true(complete);
      t.deepEqual(usage, expected);
      const whole = assembled(path, given);
      t.deepEqual(whole.usage, expected);
      // The client gets it in one place.
      const last = sent.at(-1) ?? {};
      t.deepEqual(last.choices, []);
      t.false(JSON.stringify([sent.slice(0, -1), whole.answer.choices]).includes('prompt_tokens'));
      const shown = {
        prompt_tokens: expected?.promptTokens ?? 30,
        completion_tokens: expected?.completionTokens ?? 50,
      };
      t.like(last.usage, shown);
      t.like(whole.answer.usage, shown);
    });
  }

  const choice = {
    index: 0,
    message: { role: 'assistant', content: 'Hi', refusal: null },
    text: 'Hi',
    finish_reason: 'stop',
  };
  const wholes: Record<string, [Json, ReportedUsage | undefined]> = {
    'beside the choices': [{ choices: [choice], usage: of(7, 3) }, read(7, 3)],
    'in the choice': [{ choices: [{ ...choice, usage: of(1_000, 50) }] }, read(1_000, 50)],
    'in x_groq': [{ choices: [choice], usage: null, x_groq: { usage: of(7, 3) } }, read(7, 3)],
    'with cached tokens of DeepSeek': [
      { choices: [choice], usage: of(1_000, 3, { prompt_cache_hit_tokens: 960 }) },
      read(1_000, 3, 960),
    ],
    'with reasoning in the total only': [
      {
        choices: [choice],
        usage: of(32, 9, { total_tokens: 135, completion_tokens_details: { reasoning_tokens: 94 } }),
      },
      read(32, 103),
    ],
    'in each of two choices': [
      { choices: [1, 2].map((index) => ({ ...choice, index, usage: of(7, 10 * index) })) },
      read(7, 30),
    ],
    'in one of two choices': [{ choices: [choice, { ...choice, index: 1, usage: of(7, 3) }] }, undefined],
  };
  for (const [title, [answer, expected]] of Object.entries(wholes)) {
    test(`${path}, whole: usage ${title}`, (t) => {
      const { usage, answer: shown } = parsed(path, { ...head, ...answer });
      t.deepEqual(usage, expected);
      t.like(shown.usage, {
        ...{ prompt_tokens: expected?.promptTokens ?? 30, completion_tokens: expected?.completionTokens ?? 50 },
      });
      t.false(JSON.stringify(shown.choices).includes('prompt_tokens'));
    });
  }
}

test('reasoning that only the total had is shown as completion tokens, with the fields of the backend', (t) => {
  const usage = of(32, 9, { total_tokens: 135, completion_tokens_details: { reasoning_tokens: 94 }, vendor: 1 });
  const { events } = streamed(chat, [...text, ends(), beside({ usage }), '[DONE]']);
  t.deepEqual(events.at(-1)?.usage, { ...usage, completion_tokens: 103 });
});

/** Events of several choices: with how many were asked for, of how many prompts; what is read. */
const several: Record<string, [unknown[], { choices: number; prompts?: number }, ReportedUsage | undefined]> = {
  'after the end of each choice': [
    [
      says('a'),
      says('b', 1),
      ends(1),
      beside({ choices: [], usage: of(9, 20) }),
      ends(0),
      beside({ choices: [], usage: of(9, 30) }),
    ],
    { choices: 2 },
    read(9, 50),
  ],
  'in each choice': [
    [says('a'), says('b', 1), ends(1, { usage: of(9, 20) }), ends(0, { usage: of(9, 30) })],
    { choices: 2 },
    read(9, 50),
  ],
  'in each choice, and their sum at the end': [
    [
      says('a'),
      says('b', 1),
      ends(1, { usage: of(9, 20) }),
      ends(0, { usage: of(9, 30) }),
      beside({ usage: of(9, 50) }),
    ],
    { choices: 2 },
    read(9, 50),
  ],
  'of all, after the end of the last choice': [
    [says('a'), says('b', 1), ends(0), ends(1), beside({ choices: [], usage: of(9, 50) })],
    { choices: 2 },
    read(9, 50),
  ],
  'of all, also before the first text': [
    [beside({ usage: of(9, 0) }), says('a'), says('b', 1), ends(0), ends(1), beside({ choices: [], usage: of(9, 50) })],
    { choices: 2 },
    read(9, 50),
  ],
  'of all, twice': [
    [says('a'), says('b', 1), ends(0), ends(1), beside({ usage: of(9, 50) }), beside({ usage: of(9, 51) })],
    { choices: 2 },
    read(9, 51),
  ],
  'of one choice beside it': [
    [says('a', 0, { usage: of(9, 1) }), says('b', 1), ends(0), ends(1)],
    { choices: 2 },
    undefined,
  ],
  'after the end of each choice of two prompts': [
    [says('a'), ends(0), beside({ usage: of(3, 20) }), says('b', 1), ends(1), beside({ usage: of(4, 30) })],
    { choices: 2, prompts: 2 },
    read(7, 50),
  ],
  'after the end of each of two choices of two prompts': [
    [3, 3, 4, 4].flatMap((prompt, index) => [ends(index, { text: 'a' }), beside({ usage: of(prompt, 10) })]),
    { choices: 4, prompts: 2 },
    read(7, 40),
  ],
};
for (const [title, [events, given, expected]] of Object.entries(several)) {
  test(`several choices: usage ${title}`, (t) => {
    for (const path of [chat, completions]) {
      const { usage, complete, events: sent } = streamed(path, [...events, '[DONE]'], given);
      t.true(complete);
      t.deepEqual(usage && { ...usage, isPartial: undefined }, expected && { ...expected, isPartial: undefined });
      const { answer } = assembled(path, [...events, '[DONE]'], given);
      for (const shown of [sent.at(-1)?.usage, answer.usage]) {
        t.like(shown, {
          prompt_tokens: expected?.promptTokens ?? 30,
          completion_tokens: expected?.completionTokens ?? 50,
          total_tokens: expected === undefined ? 80 : expected.promptTokens + expected.completionTokens,
        });
      }
    }
  });
}

test('zero beside text is no count of the tokens so far: the output limit goes by ours', (t) => {
  const taken = (path: string, events: unknown[]) => {
    const converter = endpointAt(path).answer.stream?.convert(streamOptions({ model: 'm' }));
    for (const event of events) converter?.take(JSON.stringify(event));
    return converter?.written().tokens;
  };
  t.is(taken(chat, [says('a', 0, { usage: of(7, 0) })]), undefined);
  t.is(taken(chat, [says('a', 0, { usage: of(7, 1) })]), 1);
  const message = { type: 'message_start', message: { usage: { input_tokens: 7 } } };
  const delta = (output_tokens: number) => ({ type: 'message_delta', delta: {}, usage: { output_tokens } });
  t.is(taken('/v1/messages', [message, delta(0)]), undefined);
  t.is(taken('/v1/messages', [message, delta(5)]), 5);
});

const items = [{ object: 'embedding', index: 0, embedding: [1] }];
const results = [{ index: 0, relevance_score: 0.5 }];

test('embeddings and rerank: zero beside an answer is no report', (t) => {
  const zero = { prompt_tokens: 0, total_tokens: 0, vendor: 1 };
  const embedded = parsed('/v1/embeddings', { ...{ object: 'list', model: 'm', data: items }, usage: zero });
  t.is(embedded.usage, undefined);
  t.deepEqual(embedded.answer.usage, { prompt_tokens: 30, total_tokens: 30, vendor: 1 });
  for (const fields of [{ usage: zero }, { meta: { tokens: { input_tokens: 0 } } }]) {
    const ranked = parsed('/v1/rerank', { id: 'r', model: 'm', results, ...fields });
    t.is(ranked.usage, undefined);
    t.like(ranked.answer.usage, { total_tokens: 30 });
  }
});

test('responses: reasoning that only the total has counts as output, streamed and whole', (t) => {
  const usage = {
    input_tokens: 32,
    output_tokens: 9,
    total_tokens: 135,
    output_tokens_details: { reasoning_tokens: 94 },
  };
  const response = { id: 'r', object: 'response', model: 'm', status: 'completed', output: [], usage };
  const events = [{ type: 'response.completed', response }];
  const shown = { input_tokens: 32, output_tokens: 103, total_tokens: 135 };
  t.deepEqual(streamed('/v1/responses', events).usage, read(32, 103));
  t.like(streamed('/v1/responses', events).events.at(-1), { response: { usage: shown } });
  for (const whole of [assembled('/v1/responses', events), parsed('/v1/responses', response)]) {
    t.deepEqual(whole.usage, read(32, 103));
    t.like(whole.answer.usage, shown);
  }
});
