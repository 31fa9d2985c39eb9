import test from 'ava';
import { chatPrompt } from '../../../../shared/endpoints/chat/prompt-size.ts';

test('the tokenizer gets what a template may write into the prompt besides the messages', (t) => {
  const documents = [{ title: 'a', text: 'b' }];
  const kwargs = { preamble: 'c' };
  const format = { type: 'json_schema', json_schema: { name: 'd', schema: { title: 'e' } } };
  const messages = [{ role: 'user', content: 'Hi' }];
  const body = { messages, documents, chat_template_kwargs: kwargs, response_format: format, metadata: { no: 'f' } };
  t.deepEqual(chatPrompt(body), {
    texts: ['Hi', ...[documents, kwargs, format].map((each) => JSON.stringify(each))],
    tokens: 4,
  });
  t.deepEqual(chatPrompt({ messages, ...{ documents: null, response_format: 'text' } }), { texts: ['Hi'], tokens: 4 });
});
