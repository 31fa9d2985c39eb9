import test from 'ava';
import {
  type Composition,
  isEmpty,
  messagesOf,
  newTurn,
  type Reply,
  type Turn,
  withReply,
} from '../../../ingress/console/try-it/conversation.ts';
import { triedEndpoint } from '../../../ingress/console/try-it/tried-endpoints.ts';

const composition: Composition = {
  model: 'small-chat',
  comparedModel: '',
  system: '',
  message: 'And now?',
  input: 'a query',
  documents: 'one\n\ntwo',
  maxTokens: '',
  temperature: '',
  topP: '',
};

let last = 0;
const reply = (text: string, state: Reply['state'] = 'done'): Reply => ({
  model: 'm',
  state,
  answer: { text, tokens: {} },
});
const turn = (text: string, ...replies: Reply[]): Turn => {
  last += 1;
  return { id: last, text, documents: [], isMessage: true, replies };
};
const user = (content: string) => ({ role: 'user' as const, content });
const assistant = (content: string) => ({ role: 'assistant' as const, content });

test('each column continues its own conversation, below the system text', (t) => {
  const turns = [turn('Hello', reply('Hi')), turn('Who?', reply('One'), reply('Another'))];
  const withSystem = { ...composition, system: 'Be short.' };
  t.deepEqual(messagesOf(withSystem, turns, 0), [
    { role: 'system', content: 'Be short.' },
    user('Hello'),
    assistant('Hi'),
    user('Who?'),
    assistant('One'),
    user('And now?'),
  ]);
  t.deepEqual(
    messagesOf(composition, turns, 1).map(({ content }) => content),
    ['Hello', 'Hi', 'Who?', 'Another', 'And now?'],
    'before there was a second column, the first has answered',
  );
});

test('a message without an answer, and a text that stands alone, are no part of the conversation', (t) => {
  const failed = { model: 'm', state: 'failed' as const };
  const alone = { ...turn('an input', reply('a vector')), isMessage: false };
  const turns = [
    turn('Lost', failed),
    turn('Cut', reply('half', 'failed')),
    alone,
    turn('Kept', reply('a', 'stopped')),
  ];
  t.deepEqual(
    messagesOf(composition, turns, 0).map(({ content }) => content),
    ['Kept', 'a', 'And now?'],
  );
});

test('without a next message, the last request is shown as a program', (t) => {
  const turns = [turn('Hello', reply('Hi'))];
  t.deepEqual(messagesOf({ ...composition, message: ' ' }, turns, 0), [user('Hello')]);
  t.deepEqual(messagesOf({ ...composition, message: '' }, [], 0), []);
});

test('a turn has what its endpoint takes, and only its own replies change', (t) => {
  const sent = newTurn(composition, triedEndpoint('rerank'), ['a', 'b']);
  t.like(sent, { text: 'a query', documents: ['one', 'two'], isMessage: false });
  t.like(newTurn(composition, triedEndpoint('chat'), ['a']), { text: 'And now?', documents: [], isMessage: true });
  const turns = [turn('x', reply('1')), { id: 99, ...sent }];
  const changed = withReply(turns, { id: 99, column: 1 }, { state: 'done' });
  t.deepEqual(
    changed.map(({ replies }) => replies.map(({ state }) => state)),
    [['done'], ['running', 'done']],
  );
  t.deepEqual(withReply(turns, { id: 7, column: 0 }, { state: 'failed' }), turns, 'of a cleared turn');
});

test('nothing is sent without a text, or without documents to rank', (t) => {
  t.true(isEmpty({ ...composition, message: ' ' }, { takes: 'messages' }));
  t.false(isEmpty({ ...composition, message: '' }, { takes: 'input' }));
  t.true(isEmpty({ ...composition, documents: ' \n' }, { takes: 'documents' }));
  t.false(isEmpty(composition, { takes: 'documents' }));
});
