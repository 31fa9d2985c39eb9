import { type RouteDescriptions, refusedBody, refusedHead } from '../description/route-description.ts';

const model = { id: 'small-chat', object: 'model', created: 0, owned_by: 'service', tier: 'standard' };

export const inferenceRoutes = {
  'POST /v1/chat/completions': {
    id: 'createChatCompletion',
    tag: 'Inference',
    summary: 'Create a chat completion',
    description: `Compatible with OpenAI's API. The operator lists additional top-level fields for each model: by default those that model servers
document for sampling and structured output (\`top_k\`, \`min_p\`, \`guided_json\`, \`chat_template_kwargs\` and others). Every other field is
refused by name, and so is \`pattern\` in a schema of such a field. Fields within messages are passed to the model server unchanged, except
\`uuid\` and \`content_hash\` of images, audio and files, which the operator has to allow. Addresses of images, audio and files are \`data:\`
URLs, or \`https:\` URLs of hosts that the operator lists. With \`stream\` the response is
server-sent events: \`data: <ChatCompletionChunk>\` each, then \`data: [DONE]\`. An interrupted stream ends with \`data: <StreamError>\`
and no \`[DONE]\`. Lines that start with a colon are comments, sent while there is no data.`,
    credential: 'key',
    body: {
      schema: 'ChatCompletionRequest',
      example: { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }] },
    },
    answer: {
      description: 'The completion, or its events if `stream` is true.',
      schema: 'ChatCompletion',
      stream: true,
      example: {
        id: 'chatcmpl-7f3a',
        object: 'chat.completion',
        created: 1_767_225_600,
        model: 'small-chat',
        choices: [
          { index: 0, message: { role: 'assistant', content: 'Hello! How can I help?' }, finish_reason: 'stop' },
        ],
        usage: { prompt_tokens: 8, completion_tokens: 7, total_tokens: 15 },
      },
    },
    refusals: [
      ...refusedHead.key,
      ...refusedBody,
      'quota_exceeded',
      'rate_limit_exceeded',
      'UPSTREAMS_EXHAUSTED',
      'DEADLINE_EXCEEDED',
    ],
    limits: ['requests_limit', 'tokens_limit', 'daily_limit', 'concurrency_limit', 'plan_limit'],
  },
  'GET /v1/models': {
    id: 'listModels',
    tag: 'Inference',
    summary: 'List the models of the plan',
    credential: 'either',
    answer: { description: 'The models.', schema: 'ModelList', example: { object: 'list', data: [model] } },
    refusals: refusedHead.key,
  },
  'GET /v1/models/*model': {
    id: 'retrieveModel',
    tag: 'Inference',
    summary: 'Retrieve a model of the plan',
    credential: 'either',
    answer: { description: 'The model.', schema: 'Model', example: model },
    refusals: [...refusedHead.key, 'NOT_FOUND'],
  },
} as const satisfies RouteDescriptions;
