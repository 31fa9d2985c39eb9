import test from 'ava';
import { startModelServer } from '../../stack/model-server.ts';
import { ask, askRaw, textOf, withFault } from '../model-server-calls.ts';

interface Format {
  readonly path: string;
  /** A request whose answer has more than 20 tokens. */
  readonly body: object;
  /** A limit of two tokens, if the endpoint has limits. */
  readonly limit?: object;
  /** Its error, whole. */
  readonly error: RegExp;
  readonly usage: RegExp;
  readonly streams?: boolean;
}

const openAiError = /^\{"error":\{"message":"[^"]+","type":"server_error","param":null,"code":null\}\}$/;
const messages = [{ role: 'user', content: 'Grüße' }];

const formats: Record<string, Format> = {
  completions: {
    path: '/v1/completions',
    body: { prompt: 'Grüße', stream_options: { include_usage: true } },
    limit: { max_tokens: 2 },
    error: openAiError,
    usage: /"usage"/,
    streams: true,
  },
  responses: {
    path: '/v1/responses',
    body: { input: 'Grüße' },
    limit: { max_output_tokens: 2 },
    error: openAiError,
    usage: /"usage":\{/,
    streams: true,
  },
  messages: {
    path: '/v1/messages',
    body: { messages, max_tokens: 1_000 },
    limit: { max_tokens: 2 },
    error: /^\{"type":"error","error":\{"type":"api_error","message":"[^"]+"\}\}$/,
    usage: /"usage"/,
    streams: true,
  },
  embeddings: { path: '/v1/embeddings', body: { input: 'Grüße' }, error: openAiError, usage: /"usage"/ },
  rerank: {
    path: '/v1/rerank',
    body: { query: 'Grüße', documents: ['a', 'b', 'c'] },
    limit: { top_n: 2 },
    error: openAiError,
    usage: /"usage"/,
  },
  'counting of tokens': {
    path: '/v1/messages/count_tokens',
    body: { messages },
    error: /^\{"type":"error","error":\{"type":"api_error","message":"[^"]+"\}\}$/,
    usage: /"input_tokens"/,
  },
};

const all = Object.entries(formats);

for (const [name, format] of all) {
  test(`${name}: an error, instead of an answer or with status 200, has the shape of the endpoint`, async (t) => {
    await using server = await withFault({ status: 503, errorMessage: 'Slow down.' });
    const refused = await ask(server, format);
    t.is(refused.status, 503);
    t.regex(await refused.text(), format.error);
    server.fail({ garbage: 'error' });
    const accepted = await ask(server, format);
    t.is(accepted.status, 200);
    const kind = /^\{"type":"error"/.test(await accepted.text()) ? 'anthropic' : 'openai';
    t.is(kind, format.path.startsWith('/v1/messages') ? 'anthropic' : 'openai');
    server.fail({ garbage: 'json' });
    await t.throwsAsync((await ask(server, format)).json(), { instanceOf: SyntaxError });
  });

  test(`${name}: a whole reply without usage, cut, of a wrong length or with slow headers`, async (t) => {
    await using server = await withFault({ noUsage: true });
    t.notRegex(await textOf(server, format), format.usage);
    server.heal();
    t.regex(await textOf(server, format), format.usage);
    server.fail({ cutAfterChunks: 0 });
    t.is((await askRaw(server, format)).error, 'ECONNRESET');
    server.fail({ lengthFactor: 2 });
    t.regex((await askRaw(server, format)).text, /\r\n\r\n\{.*\}$/s);
    t.deepEqual(
      server.calls().map(({ state }) => state),
      ['completed', 'completed', 'failed', 'failed'],
    );
    server.fail({ slowHeadersMs: 20 });
    t.regex(await textOf(server, format), format.usage);
  });

  test(`${name}: endless, until the client disconnects`, async (t) => {
    await using server = await withFault({ endless: true });
    for (const stream of format.streams ? [false, true] : [false]) {
      let received = 0;
      for await (const part of (await ask(server, format, { stream })).body ?? []) {
        received += part.length;
        if (received > 300_000) break;
      }
      t.true(received > 300_000);
      await server.waitForCall((call) => call.stream === stream && call.state === 'aborted');
    }
  });
}

test('invalidUtf8: a byte that is not UTF-8, in whole replies and streams', async (t) => {
  await using server = await withFault({ invalidUtf8: true });
  for (const [name, format] of all.filter(([name]) => name !== 'counting of tokens')) {
    for (const stream of format.streams ? [false, true] : [false]) {
      const bytes = await (await ask(server, format, { stream })).bytes();
      t.throws(() => new TextDecoder('utf-8', { fatal: true }).decode(bytes), undefined, name);
      if (!stream) t.notThrows(() => JSON.parse(new TextDecoder().decode(bytes)), name);
    }
  }
});

test('ignoresLimit: the complete answer, with all of its tokens', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  for (const [name, format] of all.filter(([, { limit }]) => limit !== undefined)) {
    const complete = await textOf(server, format);
    const cut = await textOf(server, format, format.limit);
    server.fail({ ignoresLimit: true });
    const ignoring = await textOf(server, format, format.limit);
    server.heal();
    t.true(cut.length < complete.length, name);
    t.true(ignoring.length > cut.length, name);
    const [first, , third] = server.calls().slice(-3);
    t.is(third?.completionTokens, first?.completionTokens);
  }
});
