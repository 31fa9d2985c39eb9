import { anthropicListQuery } from '../../routes/models.ts';
import { type RouteDescriptions, refusedHead } from '../description/route-description.ts';

const model = {
  id: 'small-chat',
  object: 'model',
  created: 0,
  owned_by: 'service',
  tier: 'standard',
  endpoints: ['chat'],
};

const inAnthropicsFormat =
  "In OpenAI's format. With the header `anthropic-version`, answers and errors are in Anthropic's.";

export const modelRoutes = {
  'GET /v1/models': {
    id: 'listModels',
    tag: 'Inference',
    summary: 'List the models of the plan',
    description: `${inAnthropicsFormat} Then it takes these parameters, and otherwise none.`,
    query: anthropicListQuery,
    credential: 'either',
    answer: { description: 'The models.', schema: 'ModelList', example: { object: 'list', data: [model] } },
    refusals: refusedHead.key,
  },
  'GET /v1/models/*model': {
    id: 'retrieveModel',
    tag: 'Inference',
    summary: 'Retrieve a model of the plan',
    description: inAnthropicsFormat,
    credential: 'either',
    answer: { description: 'The model.', schema: 'Model', example: model },
    refusals: [...refusedHead.key, 'NOT_FOUND'],
  },
} as const satisfies RouteDescriptions;
