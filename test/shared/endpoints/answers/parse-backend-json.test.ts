import test from 'ava';
import { BackendError } from '../../../../shared/endpoints/answers/backend-error.ts';
import { parseBackendJson } from '../../../../shared/endpoints/answers/parse-backend-json.ts';

const nested = (levels: number) => `${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`;

const read: Record<string, string> = {
  '128 levels': nested(128),
  'many objects beside each other': `[${Array(500).fill('{"a":[]}').join()}]`,
  'brackets in a string': JSON.stringify({ content: '[{'.repeat(1_000) }),
};

for (const [what, text] of Object.entries(read)) {
  test(`reads ${what}`, (t) => {
    t.deepEqual(parseBackendJson(text, 'an event'), JSON.parse(text));
  });
}

const unreadable: [string, string, string][] = [
  ['130 levels', nested(130), 'an event is nested deeper than 128 levels'],
  ['130 levels that are not closed', '[{"a":'.repeat(65), 'an event is nested deeper than 128 levels'],
  ['a million parts', `[${Array(500_001).fill('{"":1}').join()}]`, 'an event has more than 1000000 objects, arrays'],
  ['half an object', '{"a":', 'an event is not JSON'],
];

for (const [what, text, message] of unreadable) {
  test(`cannot read ${what}`, (t) => {
    const error = t.throws(() => parseBackendJson(text, 'an event'), { instanceOf: BackendError });
    t.is(error?.fault, 'unreadable');
    t.true(error?.message.startsWith(message), error?.message);
  });
}
