/** An OpenAPI document with everything that its page shows: tags, parameters, both kinds of bodies, references, examples. */
export const smallDocument = {
  openapi: '3.1.0',
  info: { title: 'Inference service', version: '1.2.3', description: 'What it *answers*.' },
  servers: [{ url: 'https://api.example.com' }],
  tags: [
    { name: 'Keys', description: 'Who may ask.' },
    { name: 'Inference', description: 'What models answer.' },
  ],
  paths: {
    '/v1/chat/completions': {
      post: {
        operationId: 'createChatCompletion',
        tags: ['Inference'],
        summary: 'Answer a conversation',
        description: 'Complete, or as a stream. <script>alert(1)</script>',
        security: [{ key: [] }],
        parameters: [{ name: 'x-client-request-id', in: 'header', schema: { type: 'string', maxLength: 512 } }],
        requestBody: {
          required: true,
          content: {
            'application/json': {
              schema: { $ref: '#/components/schemas/ChatRequest' },
              example: { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }] },
            },
          },
        },
        responses: {
          200: {
            description: 'The answer.',
            headers: { 'x-request-id': { schema: { type: 'string' }, description: 'Ours.' } },
            content: {
              'application/json': {
                schema: { type: 'object', required: ['id'], properties: { id: { type: 'string' } } },
              },
              'text/event-stream': { schema: { type: 'string' } },
            },
          },
          429: { $ref: '#/components/responses/limited' },
        },
      },
    },
    '/v1/keys/developer': {
      get: {
        operationId: 'listKeys',
        tags: ['Keys'],
        summary: 'List keys',
        responses: { 200: { description: 'Keys.' } },
      },
      post: {
        operationId: 'mintKey',
        tags: ['Keys'],
        summary: 'Create a key',
        responses: { 200: { description: 'It.' } },
      },
    },
    '/openapi.json': { get: { operationId: 'getDocument', responses: { 200: { description: 'This document.' } } } },
  },
  components: {
    securitySchemes: { key: { type: 'http', scheme: 'bearer' } },
    responses: {
      limited: {
        description: 'Too many.',
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Refusal' } } },
      },
    },
    schemas: {
      Refusal: {
        type: 'object',
        properties: {
          error: { type: 'object', properties: { code: { type: 'string', const: 'rate_limit_exceeded' } } },
        },
      },
      ChatRequest: {
        type: 'object',
        required: ['model', 'messages'],
        properties: {
          model: { type: 'string' },
          messages: {
            type: 'array',
            items: {
              oneOf: [
                {
                  type: 'object',
                  properties: { role: { type: 'string', const: 'user' }, content: { type: 'string' } },
                },
                {
                  type: 'object',
                  properties: { role: { type: 'string', const: 'tool' }, content: { type: 'string' } },
                },
              ],
            },
          },
          stream: { type: 'boolean', default: false },
        },
        additionalProperties: true,
      },
    },
  },
};
