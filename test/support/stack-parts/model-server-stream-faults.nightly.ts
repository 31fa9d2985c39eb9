import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { type Fault, startModelServer } from '../../stack/model-server.ts';
import { ask, askRaw, textOf, withFault } from '../model-server-calls.ts';

interface Format {
  readonly path: string;
  /** A request whose answer has more than 20 tokens. */
  readonly body: object;
  readonly usage: RegExp;
  /** An event with a token. */
  readonly token: RegExp;
  /** What ends the stream, and what `noDone` leaves as its last event. */
  readonly end: RegExp;
  readonly withoutDone: RegExp;
  readonly errorEvent: RegExp;
  readonly failedEvent: RegExp;
}

const messages = [{ role: 'user', content: 'Grüße' }];

const formats: Record<string, Format> = {
  completions: {
    path: '/v1/completions',
    body: { prompt: 'Grüße', stream_options: { include_usage: true } },
    usage: /"usage"/,
    token: /"text":"[^"]+"/g,
    end: /data: \[DONE\]\n\n$/,
    withoutDone: /"total_tokens":\d+\}\}\n\n$/,
    errorEvent: /\ndata: \{"error":\{"message":"Dead\.","type":"server_error","code":500\}\}\n\ndata: \[DONE\]\n\n$/,
    failedEvent: /\ndata: \{"error":\{"message":"Dead\.","type":"server_error","code":500\}\}\n\n$/,
  },
  responses: {
    path: '/v1/responses',
    body: { input: 'Grüße' },
    usage: /"usage":\{/,
    token: /"type":"response\.output_text\.delta"/g,
    end: /event: response\.completed\n.*\n\n$/,
    withoutDone: /event: response\.output_item\.done\n.*\n\n$/,
    errorEvent:
      /\nevent: error\ndata: \{"type":"error","sequence_number":6,"code":"server_error","message":"Dead\.".*\n\nevent: response\.completed\ndata: \{"type":"response\.completed","sequence_number":7,.*\n\n$/,
    failedEvent:
      /\nevent: response\.failed\n.*"sequence_number":6,.*"error":\{"code":"server_error","message":"Dead\."\}.*"status":"failed"\}\}\n\n$/,
  },
  messages: {
    path: '/v1/messages',
    body: { messages, max_tokens: 1_000 },
    usage: /"usage"/,
    token: /"type":"text_delta"/g,
    end: /event: message_stop\ndata: \{"type":"message_stop"\}\n\n$/,
    withoutDone: /event: message_delta\n.*\n\n$/,
    errorEvent:
      /\nevent: error\ndata: \{"type":"error","error":\{"type":"api_error","message":"Dead\."\}\}\n\nevent: message_stop\n.*\n\n$/,
    failedEvent: /\nevent: error\ndata: \{"type":"error","error":\{"type":"api_error","message":"Dead\."\}\}\n\n$/,
  },
};

for (const [name, format] of Object.entries(formats)) {
  const asked = { stream: true };
  const tokensIn = (text: string) => text.match(format.token)?.length ?? 0;

  test(`${name}: noDone and noUsage omit these from a stream`, async (t) => {
    await using server = await withFault({ noDone: true });
    const open = await textOf(server, format, asked);
    t.regex(open, format.withoutDone);
    t.notRegex(open, format.end);
    server.fail({ noUsage: true });
    const uncounted = await textOf(server, format, asked);
    t.regex(uncounted, format.end);
    t.notRegex(uncounted, format.usage);
    server.heal();
    t.regex(await textOf(server, format, asked), format.usage);
  });

  test(`${name}: a stream breaks off after a number of tokens`, async (t) => {
    await using server = await withFault({ cutAfterChunks: 2 });
    const cut = await askRaw(server, format, asked);
    t.is(cut.error, 'ECONNRESET');
    t.is(tokensIn(cut.text), 2);
    for (const endAfterChunks of [0, 3]) {
      server.fail({ endAfterChunks });
      const ended = await textOf(server, format, asked);
      t.is(tokensIn(ended), endAfterChunks);
      t.notRegex(ended, format.end);
    }
    server.fail({ endAfterChunks: 1_000_000 });
    t.notRegex(await textOf(server, format, asked), format.end);
    t.deepEqual(
      server.calls().map(({ chunksSent, completionTokens, state }) => [chunksSent, completionTokens, state]),
      [2, 0, 3, server.calls().at(-1)?.chunksSent].map((tokens) => [tokens, tokens, 'failed']),
    );
  });

  test(`${name}: a stream goes silent after a number of tokens`, async (t) => {
    await using server = await withFault({ stallAfterChunks: 2 });
    const left = new AbortController();
    const body = JSON.stringify({ model: 'm', ...format.body, ...asked });
    const reply = await fetch(new URL(format.path, server.url), { method: 'POST', body, signal: left.signal });
    const text = reply.text();
    await server.waitForCall(({ chunksSent }) => chunksSent === 2);
    t.is(await Promise.race([text, sleep(60, 'nothing')]), 'nothing');
    left.abort();
    await t.throwsAsync(text);
    t.is((await server.waitForCall(({ state }) => state === 'aborted')).completionTokens, 2);
  });

  test(`${name}: an error event, a failed event or an unreadable event replaces the rest of a stream`, async (t) => {
    await using server = await startModelServer({ name: 'onprem-a', splitBytes: false });
    const endings = {
      'an error event': format.errorEvent,
      'a failed event': format.failedEvent,
      'half an event': /"and\n\n.*\n\n$/s,
      'invalid UTF-8': /"\ufffd+"[^\n]*\n\n.*\n\n$/s,
    } as const;
    for (const [into, ending] of Object.entries(endings)) {
      server.fail({ derails: { afterChunks: 2, into: into as keyof typeof endings }, errorMessage: 'Dead.' });
      const text = await textOf(server, format, asked);
      t.regex(text, ending, into);
      t.like(server.calls().at(-1), { state: 'failed', chunksSent: 2, completionTokens: 2 });
    }
    server.fail({ derails: { afterChunks: 2, into: 'a closed connection' } });
    t.is(tokensIn((await askRaw(server, format, asked)).text), 2);
  });

  test(`${name}: endless events, until the client disconnects, each with its number if the format has them`, async (t) => {
    const withoutTokens: Fault = { derails: { afterChunks: 2, into: 'endless roles' } };
    for (const fault of [withoutTokens, { endless: true }]) {
      await using server = await withFault(fault);
      let text = '';
      for await (const part of (await ask(server, format, asked)).body ?? []) {
        text += Buffer.from(part).toString();
        if (text.split('\n\n').length > 20) break;
      }
      const { completionTokens } = await server.waitForCall(({ state }) => state === 'aborted');
      const events = text.split('\n\n').slice(0, -1);
      const numbers = events.flatMap((event) => /"sequence_number":(\d+)/.exec(event)?.[1] ?? []);
      t.deepEqual(numbers, [...numbers.keys()].map(String));
      t.is(completionTokens > 20, fault !== withoutTokens);
      t.notRegex(text, format.end);
    }
  });

  test(`${name}: events with truncated JSON in an otherwise complete stream, at the pace of its tokens`, async (t) => {
    await using server = await withFault({ badEvents: true });
    const bad = await textOf(server, format, asked);
    const events = bad.split('\n\n').flatMap((event) => /data: (\{.*)/.exec(event)?.[1] ?? []);
    t.throws(() => events.map((event) => JSON.parse(event)), { instanceOf: SyntaxError });
    t.regex(bad, format.end);
    server.fail({ chunkMs: 3 });
    const startedAt = performance.now();
    const tokens = tokensIn(await textOf(server, format, asked));
    t.true(tokens > 20);
    t.true(performance.now() - startedAt >= 3 * (tokens - 1) - 5);
    server.fail({ slowHeadersMs: 20 });
    t.regex(await textOf(server, format, asked), format.end);
  });
}
