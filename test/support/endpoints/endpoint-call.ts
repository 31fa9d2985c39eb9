import { parseJsonBody } from '../../../ingress/listener/json-body.ts';
import type { Endpoint } from '../../../shared/endpoints/definition/endpoint.ts';
import { type Call, type CallableModel, readCall } from '../../../shared/endpoints/definition/read-call.ts';
import { endpointNames } from '../../../shared/endpoints/endpoints.ts';
import { createListedFields } from '../../../shared/endpoints/fields/listed-fields.ts';
import { ApiError } from '../../../shared/errors.ts';

const model: CallableModel & { extraTools?: string[] } = {
  tier: 'guest',
  pool: 'default',
  endpoints: endpointNames,
  outputTokensMax: 1_000,
};
const models = { m: model };
const rule = createListedFields({ models, mediaHosts: [] });

/** A body as the ingress reads it: of the model `m`, which may generate 1,000 tokens and is also called `other name`. */
export function callOf(endpoint: Endpoint, body: object): Call {
  const sent = parseJsonBody(new TextEncoder().encode(JSON.stringify({ model: 'm', ...body })));
  return readCall(endpoint, sent, { models, aliases: { 'other name': 'm' }, rule });
}

/** Every fault of a body, in the order of the message. */
export function faultsOf(endpoint: Endpoint, body: object): string[] {
  try {
    callOf(endpoint, body);
    return [];
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'VALIDATION_ERROR') throw error;
    return error.message.split('; ');
  }
}

/** The path of each fault. */
export function faultyFields(endpoint: Endpoint, body: object): string[] {
  return faultsOf(endpoint, body).map((fault) => fault.slice(0, fault.indexOf(': ')));
}
