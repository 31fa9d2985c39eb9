import test from 'ava';
import { relayedText, withoutAddresses } from '../../../workers/failover/relayed-text.ts';

const apiKey = 'correct/horse+battery=staple';
const relayed = (text: string) => relayedText(text, apiKey);

test('the key of the call is removed everywhere, as it is or encoded, complete or by its beginning', (t) => {
  const hidden = [
    apiKey,
    encodeURIComponent(apiKey),
    apiKey.slice(0, 20),
    apiKey.slice(0, 8),
    [...apiKey].join('\u200b'),
    [...apiKey].join('\u0000'),
  ];
  for (const key of hidden) {
    t.is(relayed(`Invalid key ${key} for this model.`), 'Invalid key [key] for this model.', JSON.stringify(key));
    t.is(relayed(`<${key}`), '<[key]');
  }
  t.is(relayedText('no hunter2 here, hunter2', 'hunter2'), 'no [key] here, [key]');
  t.is(relayedText('a.c and abc', 'a.c+'), 'a.c and abc');
  t.is(relayedText('x and yes', 'x'), 'x and yes', 'a single letter is no key');
  t.is(relayedText('The context is too long.', undefined), 'The context is too long.');
});

test('no part of the key is left at the end of a cut text', (t) => {
  for (let before = 400; before < 520; before++) {
    for (const at of [before, before + 1_480]) {
      const text = relayed(`${'word '.repeat(at / 5)}${'x'.repeat(at % 5)} ${apiKey} ${'word '.repeat(300)}`);
      t.false(text.includes('corr'), `${at}: ${text.slice(-40)}`);
      t.true(text.length <= 500);
    }
  }
});

const secrets = [
  ['Authorization: Bearer abc.def', ['abc.def']],
  ['you sent "Bearer hunter2"', ['hunter2']],
  ['header bearer%20hunter2', ['hunter2']],
  ['Basic dXNlcjpodW50ZXIy was sent', ['dXNlcjpodW50ZXIy']],
  ['Incorrect API key provided: sk-proj-abc***xyz.', ['sk-proj', 'xyz']],
  ['key sk_live_4eC39HqLyjW is revoked', ['4eC39H']],
  ['svc_Ab3dEf**** and svc_0123456789abcdefghijABCDEFGHIJ01abcdef', ['svc_A', 'svc_0']],
  ['token ghp_16C7e42F292c6912E7710c838347Ae178B4a', ['ghp_']],
  ['hf_aBcDeFgHiJkLmNoPqRsT1 has no access', ['hf_aB']],
  ['AKIAIOSFODNN7EXAMPLE', ['AKIA']],
  ['AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY', ['AIza']],
  ['jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmN', ['eyJ', 'dozj']],
  ['xoxb-123456789012-abcdefABCDEF', ['xoxb']],
  ['{"api_key": "hunter2"}', ['hunter2']],
  ["api-key='hunter2' rejected", ['hunter2']],
  ['password=hunter2&user=me', ['hunter2']],
  ['client_secret: hunter2', ['hunter2']],
  ['x-api-key: hunter2', ['hunter2']],
  ['random 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', ['9f86', '0a08']],
  ['random 9F86D081884C7D659A2FEAA0C55AD015', ['9F86']],
  ['random q7Zk2VbX9mLp4RtY8wHs', ['q7Zk']],
  ['random aGVsbG8gd29ybGQgdGhpcyBpcyBhIHNlY3JldA==', ['aGVs']],
  ['random k3j5h2g8f6d4s9a7q1w0e3r5t7y9', ['k3j5']],
  ['https://user:hunter2@10.0.0.1/x', ['hunter2', 'user']],
  ['redis://:hunter2@redis:6379', ['hunter2', 'redis']],
  ['postgres://svc:hunter2@db/x', ['hunter2', '@db']],
  ['connect as admin:hunter2@db-1 failed', ['hunter2', 'admin', 'db-1']],
] as const;

for (const [text, hidden] of secrets) {
  test(`a credential is removed from: ${text.slice(0, 60)}`, (t) => {
    for (const secret of hidden) t.false(relayed(text).includes(secret), relayed(text));
    t.regex(relayed(text), /\[key\]|\[address\]/);
  });
}

const paths = [
  '/opt/vllm/lib/python3.12/site-packages/vllm/engine.py',
  '/models/llama/',
  '/etc/passwd',
  '/model.gguf',
  '~/models/llama',
  'C:\\Users\\gpu\\model.bin',
  'D:/models/a.bin',
  '\\\\fileserver\\models\\a.bin',
];

for (const path of paths) {
  test(`the path ${path} is removed, alone, quoted and in a sentence`, (t) => {
    t.is(relayed(path), '[path]');
    t.is(relayed(`cannot open ${path} for reading`), 'cannot open [path] for reading');
    t.is(relayed(`File "${path}", line 3`), 'File "[path]", line 3');
  });
}

test('addresses are removed, also within text that looks like a credential', (t) => {
  t.is(relayed('POST http://10.0.0.7:8000/v1/chat/completions failed'), 'POST [address] failed');
  t.is(
    relayed('vllm-0.models.svc.cluster.local:8000 and 2001:db8::1 and localhost:8000'),
    '[address] and [address] and [address]',
  );
});

const harmless = [
  'The prompt is too long: 9000 tokens, 8192 allowed.',
  "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the messages, 1000 in the completion).",
  'messages[0].content: expected application/json or image/png and/or text',
  '/messages/0/content must be string, /tools/0/function/name is missing',
  'POST /v1/chat/completions and /v1/models are served',
  'the model RedHatAI/Llama-4-Scout-17B-16E-Instruct-quantized.w4a16 is not loaded',
  'the model meta-llama/Meta-Llama-3.1-70B-Instruct-GPTQ-INT4 does not support images',
  'Qwen/Qwen2.5-VL-72B-Instruct-AWQ and gpt-4o-mini-2024-07-18',
  'Qwen2_5_VLForConditionalGeneration has no chat_template_content_format_option_names',
  'ChatCompletionRequestUserMessageContentPart expected, ChatCompletionMessageFunctionToolCallParam found',
  'max_completion_tokens_including_reasoning_tokens is too large',
  'token 12345678901234567890123456 is out of range, top_p: 1.5, n=3',
  'unexpected token: expected a comma at position 31',
  'basic and digest authentication are not supported',
  'a date of 2026-11-20T12:30:45.123456Z, 10/20/30, 50 %',
  'supercalifragilisticexpialidocious Donaudampfschifffahrtsgesellschaft',
  '東京の空 Żółć: слишком длинный запрос',
];

for (const text of harmless) {
  test(`is relayed unchanged: ${text.slice(0, 70)}`, (t) => {
    t.is(relayed(text), text);
  });
}

test('a text has at most 500 characters, keeps its lines, and is processed quickly for any content', (t) => {
  t.is(relayed('one\ntwo\tthree\u001b[31m'), 'one\ntwo\tthree[31m');
  t.true(relayed('word '.repeat(1_000_000)).length <= 500);
  t.is(relayed('x'.repeat(100_000)), '', 'half a credential cannot be distinguished from a word');
  const slow = [
    'a-',
    ':',
    '[:',
    '1.',
    'a.',
    'a:',
    'a@',
    '/a',
    '/',
    'a/',
    'Ab1',
    'key=',
    'bearer ',
    '\\\\',
    'eyJ',
    'sk-',
    'a+',
  ];
  const before = process.cpuUsage();
  for (const part of slow) relayed(part.repeat(60_000));
  t.true(process.cpuUsage(before).user < 3_000_000);
});

test('a message that is made to be slow to process is processed quickly', (t) => {
  const slow = [
    'a-'.repeat(30_000),
    ':'.repeat(60_000),
    '[:'.repeat(30_000),
    `${'1.'.repeat(30_000)}:`,
    'a.'.repeat(30_000),
  ];
  const before = process.cpuUsage();
  for (const message of slow) relayedText(message, undefined);
  t.true(process.cpuUsage(before).user < 2_000_000);
});

const addresses = [
  'http://10.0.0.7:8000/v1/chat/completions?x=1',
  'https://gpu-3.example.com',
  'tcp://vllm:8000',
  '10.0.0.7',
  '10.0.0.7:8000',
  '192.168.10.25',
  '[::1]:8000',
  '[2001:db8::1]',
  '::1',
  '2001:db8::1',
  '2001:db8:0:1:2:3:4:5',
  'fe80::1%eth0',
  '::ffff:10.0.0.7',
  'localhost:8000',
  'host.internal:8084',
  'gpu-3.example.com:443',
  'vllm-0.models.svc.cluster.local:8000',
  'vllm:8000',
  '10gpu:8000',
  'vllm.internal',
  'host.docker.internal',
];

for (const address of addresses) {
  test(`removes the address ${address}, alone and in a sentence`, (t) => {
    t.is(withoutAddresses(address), '[address]');
    t.is(withoutAddresses(`Connect to ${address} failed.`), 'Connect to [address] failed.');
  });
}

const withoutAddress = [
  'The prompt is too long: 9000 tokens, 8192 allowed.',
  'messages[0]: content is missing',
  'messages[2].content:12 expected a string',
  'At 12:30 the model was unloaded.',
  'since 2026-11-20T12:30:45Z, or 12:30:45.123',
  'a ratio of 16:10 or 4:3:2:1',
  'one image of 1:1024 tokens',
  'no method bad::face',
  'std::vector and Foo::Bar, temperature: 2.5, top_p:1.0, n::',
  'max_tokens: 4096 is larger than max_model_len=2048',
  'the model qwen2.5:72b is not loaded',
  'Error code: 400 - {"object":"error"}',
];

for (const message of withoutAddress) {
  test(`keeps unchanged: ${message}`, (t) => {
    t.is(withoutAddresses(message), message);
  });
}
