import test from 'ava';
import { readPreview } from '../../../ingress/console/batches/read-preview.ts';
import { lineOf } from '../../support/batch-client.ts';

const { signal } = new AbortController();
const preview = (text: string) => readPreview(new Blob([text]), signal);

test('a file shows its lines, models, endpoint and tokens', async (t) => {
  const lines = [lineOf('one'), lineOf('two', { model: 'other-chat' }), lineOf('three')].join('\n');
  const found = await preview(`${lines}\n`);
  t.like(found, { lines: 3, examined: 3, endpoint: '/v1/chat/completions', faults: [] });
  t.is(found.models.length, 2);
  t.true(found.models.includes('other-chat'));
  t.true(found.tokens > 0);
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
      line({ body: 'x' }),
      line({ body: {} }),
      line({ custom_id: 'same' }),
      line({ custom_id: 'same' }),
      line({ custom_id: 'elsewhere', url: '/v1/embeddings' }),
    ].join('\n'),
  );
  t.deepEqual(
    faults.map(({ line: number, message }) => [number, message.split(':')[0]]),
    [
      [1, 'this is not a JSON object'],
      [2, 'this is not a JSON object'],
      [3, 'custom_id'],
      [4, 'method'],
      [5, 'url'],
      [6, 'body'],
      [7, 'body.model'],
      [9, 'the custom_id "same" is used before'],
      [10, 'url'],
    ],
  );
});

test('what the service refuses in the form of a file is a fault', async (t) => {
  const faultsOf = async (text: string) => (await preview(text)).faults;
  const good = lineOf('one');
  t.deepEqual(await faultsOf(`\ufeff${good}\n`), [{ line: 1, message: 'the file begins with a byte order mark' }]);
  t.deepEqual(await faultsOf(`${good}\n\n${lineOf('two')}\n \n`), [
    { line: 2, message: 'the line is empty' },
    { line: 4, message: 'the line is empty' },
  ]);
  t.deepEqual(await faultsOf(`${good}\r\n`), []);
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
