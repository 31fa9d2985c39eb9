import test from 'ava';
import { canBeAssembled } from '../../../../shared/endpoints/chat/chat.ts';
import { chatRequestSchema } from '../../../../shared/endpoints/chat/chat-request.ts';

const base = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };
const asked = (fields: object) => canBeAssembled(chatRequestSchema.parse({ ...base, ...fields }));

test('every field of the schema is known to mean the same in a stream', (t) => {
  for (const field of Object.keys(chatRequestSchema.shape))
    if (!(field in base)) t.true(asked({ [field]: null }), field);
});

test('a request with known fields only can be assembled from a stream', (t) => {
  for (const fields of [
    {},
    { n: 3, logprobs: true, top_logprobs: 2, tools: [{ type: 'function' }], tool_choice: 'auto' },
    { response_format: { type: 'json_object' }, reasoning_effort: 'low', metadata: { a: 'b' }, store: false },
    { top_k: 5, min_p: 0.1, guided_json: {}, chat_template_kwargs: { enable_thinking: false } },
    { modalities: ['text'] },
    { modalities: null },
    { audio: null, moderation: null, x_vendor: null },
  ]) {
    t.true(asked(fields), JSON.stringify(fields));
  }
});

test('a request with an unknown field or non-text output is not assembled from a stream', (t) => {
  for (const fields of [
    { x_vendor: 1 },
    { use_beam_search: false },
    { prompt_logprobs: 1 },
    { return_token_ids: true },
    { echo: true },
    { constructor: 1 },
    { toString: 1 },
    { modalities: ['text', 'audio'] },
    { modalities: 'audio' },
    { audio: { voice: 'alloy', format: 'wav' } },
    { temperature: 1, best_of: 2 },
  ]) {
    t.false(asked(fields), JSON.stringify(fields));
  }
});
