import test from 'ava';
import { readPreview } from '../../../ingress/console/batches/read-preview.ts';
import { lineOf } from '../../support/batch-client.ts';

const { signal } = new AbortController();
const preview = (text: string) => readPreview(new Blob([text]), signal);

test('a file shows its lines, models, endpoint and tokens', async (t) => {
  const lines = [lineOf('one'), lineOf('two', { model: 'other-chat' }), lineOf('three')].join('\n');
  const found = await preview(`${lines}\n`);
  t.like(found, { lines: 3, examined: 3, endpoint: '/v1/chat/completions', faults: [] });
  t.deepEqual(
    found.models.map(({ name, line, lines: each, answerTokensMax }) => [name, line, each, answerTokensMax]),
    [
      ['small-chat', 1, 2, 8],
      ['other-chat', 2, 1, 4],
    ],
  );
  t.true(found.tokens > 0 && found.tokens < lines.length / 8);
  t.like(await preview(lines.replaceAll('\n', '\r\n')), { lines: 3, faults: [] }, 'also with other line ends');
});

test('faults of the first lines are shown by line', async (t) => {
  const broken = { custom_id: 'x', method: 'POST', url: '/v1/chat/completions', body: { model: 'm' } };
  const line = (change: object) => JSON.stringify({ ...broken, ...change });
  const { faults } = await preview(
    [
      '{',
      '[]',
      line({ custom_id: 7 }),
      line({ method: 'GET' }),
      line({ url: undefined }),
      line({ custom_id: 'y', body: 'x' }),
      line({ custom_id: 'z', body: {} }),
      line({ custom_id: 'same' }),
      line({ custom_id: 'same' }),
      line({ custom_id: 'elsewhere', url: '/v1/embeddings' }),
    ].join('\n'),
  );
  t.deepEqual(
    faults.map(({ line: number, message, isOfForm }) => [number, message.split(':')[0], isOfForm]),
    [
      [1, 'this is not a JSON object', true],
      [2, 'this is not a JSON object', true],
      [3, 'custom_id', true],
      [4, 'method', true],
      [5, 'url', true],
      [6, 'body', false],
      [7, 'body.model', false],
      [9, 'the custom_id "same" is used before', true],
      [10, 'url', true],
    ],
  );
});

test('a byte order mark and lines of white space are skipped, as by the service, and count in the numbers of the others', async (t) => {
  const found = await preview(`\ufeff${lineOf('one')}\r\n\n \t\n${lineOf('two')}\n\nno JSON`);
  t.like(found, { lines: 3, faults: [{ line: 6, isOfForm: true }] });
  t.like(await preview('\ufeff\n \n'), { lines: 0, faults: [] });
});

test('tokens are estimated from the texts of the prompts alone', async (t) => {
  const text = 'word '.repeat(40); // 50 tokens of four characters
  const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(40_000)}` } };
  const lineFor = (url: string, body: object, id = url) => JSON.stringify({ custom_id: id, method: 'POST', url, body });
  const bodies: [string, object, number][] = [
    [
      '/v1/chat/completions',
      {
        model: 'm',
        messages: [
          { role: 'system', content: text },
          { role: 'user', content: [{ type: 'text', text }, image] },
        ],
      },
      100,
    ],
    [
      '/v1/responses',
      { model: 'm', instructions: text, input: [{ role: 'user', content: [{ type: 'input_text', text }] }] },
      100,
    ],
    ['/v1/completions', { model: 'm', prompt: [text, text, text], user: 'x'.repeat(400) }, 150],
    ['/v1/embeddings', { model: 'm', input: [[1, 2, 3], [4]] }, 4],
    ['/v1/embeddings', { model: 'm', input: '東京'.repeat(10) }, 20],
  ];
  for (const [url, body, tokens] of bodies) t.is((await preview(lineFor(url, body))).tokens, tokens, url);
  const around = { tools: [{ type: 'function', function: { name: 'x', description: text } }], metadata: { a: text } };
  const short = lineFor('/v1/chat/completions', {
    model: 'm',
    messages: [{ role: 'user', content: 'four' }],
    ...around,
  });
  t.is((await preview(short)).tokens, 1, 'what is around the texts of messages does not count');
  const [[url = '', body = {}] = []] = bodies;
  const many = Array.from({ length: 3_000 }, (_, index) => lineFor(url, body, String(1_000 + index)));
  const whole = await preview(many.join('\n'));
  t.is(whole.tokens, 300_000, 'the lines that are not examined are like those that are');
  t.like(whole.models, [{ name: 'm', line: 1, lines: 1_000, tokens: 300_000, answerTokensMax: undefined }]);
});

test('the tokens of answers are bounded by the limits of their lines, if each has one', async (t) => {
  const limitOf = async (...bodies: [string, object][]) => {
    const lines = bodies.map(([url, body], index) =>
      JSON.stringify({ custom_id: String(index), method: 'POST', url, body: { model: 'm', ...body } }),
    );
    return (await preview(lines.join('\n'))).models[0]?.answerTokensMax;
  };
  t.is(await limitOf(['/v1/chat/completions', { max_completion_tokens: 10, n: 3 }]), 30);
  t.is(await limitOf(['/v1/responses', { max_output_tokens: 7 }], ['/v1/responses', { max_output_tokens: 8 }]), 15);
  t.is(await limitOf(['/v1/completions', { max_tokens: 7 }], ['/v1/completions', {}]), undefined);
  t.is(await limitOf(['/v1/embeddings', {}]), 0);
});

test('every line of a large file is counted, and only the first thousand are examined', async (t) => {
  const lines = Array.from({ length: 30_000 }, (_, index) => lineOf(String(index)));
  t.like(await preview([...lines, 'no JSON'].join('\n')), { lines: 30_001, examined: 1_000, faults: [] });
  t.like(await preview(''), { lines: 0, models: [], endpoint: undefined, faults: [] });
});

test('reading stops at once when it is no longer wanted', async (t) => {
  const stopping = new AbortController();
  stopping.abort();
  await t.throwsAsync(readPreview(new Blob(['{}\n'.repeat(100_000)]), stopping.signal), { name: 'AbortError' });

  const silent = new AbortController();
  const endless = { stream: () => new ReadableStream() } as Blob; // nothing comes
  const reading = readPreview(endless, silent.signal);
  silent.abort();
  await t.throwsAsync(reading, { name: 'AbortError' });
});
