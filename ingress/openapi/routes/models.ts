import { type RouteDescriptions, refusedHead } from '../description/route-description.ts';

const model = {
  id: 'small-chat',
  object: 'model',
  created: 0,
  owned_by: 'service',
  tier: 'standard',
  endpoints: ['chat'],
};

export const modelRoutes = {
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
