import { endpointNames } from '../../../shared/endpoints/endpoints.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import type { Operation } from './read-document.ts';

/** One request, from which the examples in all languages are written. */
export type RequestExample = {
  id: string;
  method: string;
  /** The base address of the API, without a trailing slash. */
  baseUrl: string;
  /** With the values of its parameters. */
  path: string;
  /** These values, in order, as they are without encoding for an address. */
  parameters: readonly string[];
  /** The environment variable with the credential, if one is needed. */
  credential?: 'KEY' | 'TOKEN' | 'OPERATOR';
  /** The value of a JSON body, if there is one. */
  body?: Readonly<Record<string, unknown>>;
  /** A form with this file is sent in place of JSON. */
  file?: string;
};

export type ExampleParts = { baseUrl: string; models: ExampleModels; modelAt: (path: string) => string | undefined };

/** The request that the OpenAPI document shows for an operation, for a model of this service. */
export function requestExample(operation: Operation, { baseUrl, models, modelAt }: ExampleParts): RequestExample {
  const { operationId: id, method, path, requestBody } = operation;
  const values = new Map(
    operation.parameters
      .filter((parameter) => parameter.in === 'path')
      .map(({ name, example }) => [name, name === 'model' ? (models.chat ?? '') : String(example ?? name)]),
  );
  const query = requiredQuery(operation);
  const content = requestBody?.content ?? {};
  const example = content['application/json']?.example;
  const credential = credentialOf(operation);
  const model = modelAt(path);
  return {
    id,
    method,
    baseUrl,
    parameters: [...values.values()],
    path: path.replace(/\{(\w+)\}/g, (_whole, name: string) => encodeURIComponent(values.get(name) ?? name)) + query,
    ...(credential !== undefined && { credential }),
    ...(isFields(example) && { body: { ...example, ...('model' in example && model !== undefined && { model }) } }),
    ...('multipart/form-data' in content && { file: 'requests.jsonl' }),
  };
}

/** The query without which the route refuses a request. Its values are the first examples of their schemas. */
function requiredQuery({ parameters }: Operation): string {
  const needed = parameters.filter((parameter) => parameter.in === 'query' && parameter.required);
  const pairs = needed.map(({ name, schema: { examples } }) => {
    const [first = name] = Array.isArray(examples) ? examples : [];
    return `${name}=${encodeURIComponent(first)}`;
  });
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
}

function isFields(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function credentialOf({ security }: Operation): RequestExample['credential'] {
  const ways = security.flatMap((way) => Object.entries(way));
  if (ways.length === 0) return undefined;
  if (ways.some(([, scopes]) => scopes.length > 0)) return 'OPERATOR';
  return ways.some(([name]) => name === 'signIn') && !ways.some(([name]) => name === 'apiKey') ? 'TOKEN' : 'KEY';
}

type Plans = Pick<PlanFile, 'models' | 'plans' | 'defaultPlan'>;

/** The models in examples, by the name of the endpoint. */
export type ExampleModels = Readonly<Record<string, string>>;

/** Returns for each endpoint the first model with it that a new account may use, because readers run the examples unchanged. */
export function exampleModels({ models, plans, defaultPlan }: Plans): ExampleModels {
  const tiers = plans[defaultPlan]?.modelTiers ?? [];
  return Object.fromEntries(
    endpointNames.map((endpoint) => {
      const offering = Object.entries(models).filter(([, model]) => model.endpoints.includes(endpoint));
      const [name] = offering.find(([, { tier }]) => tiers.includes(tier)) ?? offering[0] ?? [`${endpoint}-model`];
      return [endpoint, name];
    }),
  );
}
