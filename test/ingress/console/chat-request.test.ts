import test from 'ava';
import { codeFor, requestOf } from '../../../ingress/console/try-it/chat-request.ts';

const draft = { model: 'small-chat', messages: [{ role: 'user' as const, content: `It's "me"\n` }], maxTokens: '' };

test('a request has only the fields that were filled in', (t) => {
  const stream = { stream: true, stream_options: { include_usage: true } };
  t.deepEqual(requestOf(draft) as object, { model: 'small-chat', messages: draft.messages, ...stream });
  const messages = [{ role: 'system' as const, content: '  ' }, ...draft.messages];
  t.deepEqual(requestOf({ ...draft, messages, maxTokens: '7' }) as object, {
    model: 'small-chat',
    messages: draft.messages,
    max_tokens: 7,
    ...stream,
  });
});

test('no shown program contains a key; each reads it from the environment', (t) => {
  const request = requestOf(draft);
  const keys = { curl: '"authorization: Bearer $KEY"', node: 'process.env.KEY', python: 'os.environ["KEY"]' } as const;
  for (const [language, key] of Object.entries(keys)) {
    const code = codeFor(language as keyof typeof keys, request, 'https://api.example'); // a key of the table
    t.true(code.includes(key), language);
    t.true(code.includes('https://api.example/v1'), language);
    t.false(code.includes('svc_'), language);
  }
});

test('shell metacharacters are quoted', (t) => {
  t.true(codeFor('curl', requestOf(draft), 'https://api.example').includes(`It'\\''s \\"me\\"\\n`));
});
