import { z } from 'zod';
import { isObject } from '../../../shared/json/json-values.ts';
import { schemaPrefix } from './describe-schema.ts';

const schema = z.record(z.string(), z.unknown()).default({});
const description = z.string().default('');
const mediaSchema = z.object({ schema, example: z.unknown().optional(), 'x-event-schema': schema });
const contentSchema = z.record(z.string(), mediaSchema).default({});
const parameterSchema = z.object({
  name: z.string(),
  in: z.string(),
  required: z.boolean().default(false),
  description,
  schema,
  example: z.unknown().optional(),
});
const responseSchema = z.object({
  description,
  headers: z.record(z.string(), z.object({ description })).default({}),
  content: contentSchema,
});
const operationSchema = z.object({
  operationId: z.string().default(''),
  tags: z.array(z.string()).default([]),
  summary: z.string().optional(),
  description,
  security: z.array(z.record(z.string(), z.array(z.string()))).default([]),
  parameters: z.array(parameterSchema).default([]),
  requestBody: z.object({ content: contentSchema }).optional(),
  responses: z.record(z.string(), responseSchema).default({}),
});
const documentSchema = z.object({
  info: z.object({ title: z.string(), version: z.string(), description }),
  servers: z.array(z.object({ url: z.string(), description })).default([]),
  tags: z.array(z.object({ name: z.string(), description })).default([]),
  paths: z.record(z.string(), z.record(z.string(), z.unknown())),
  components: z
    .object({
      schemas: z.record(z.string(), schema).default({}),
      securitySchemes: z.record(z.string(), z.object({ description })).default({}),
    })
    .prefault({}),
});

export type Media = z.infer<typeof mediaSchema>;
export type Parameter = z.infer<typeof parameterSchema>;
export type Operation = Omit<z.infer<typeof operationSchema>, 'summary'> & {
  method: string;
  path: string;
  summary: string;
};
/** The operations with one tag. `slug` is its name in addresses. */
export type Group = { name: string; slug: string; description: string; operations: Operation[] };

/** The parts of an OpenAPI document (3.1) that the reference shows. References outside of schemas are resolved. */
export type OpenApiDocument = Pick<z.infer<typeof documentSchema>, 'info' | 'servers' | 'components'> & {
  groups: Group[];
};

const methods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];

/** Throws for a document that is not OpenAPI. Groups are in the order of the tags, operations in that of the document. */
export function readDocument(document: object): OpenApiDocument {
  const { info, servers, tags, paths, components } = documentSchema.parse(document);
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => methods.includes(method))
      .map(([method, value]) => readOperation({ document, method: method.toUpperCase(), path, value })),
  );
  const known = new Map(tags.map((tag) => [tag.name, tag.description]));
  const names = new Set([...known.keys(), ...operations.map(tagOf)]);
  const groups = [...names].map((name) => ({
    name,
    slug: name.toLowerCase().replace(/[^a-z\d]+/g, '-'),
    description: known.get(name) ?? '',
    operations: operations.filter((operation) => tagOf(operation) === name),
  }));
  return { info, servers, components, groups: groups.filter(({ operations: [first] }) => first !== undefined) };
}

function tagOf({ tags: [first = 'Other'] }: Operation): string {
  return first;
}

type OperationEntry = { document: object; method: string; path: string; value: unknown };

function readOperation({ document, method, path, value }: OperationEntry): Operation {
  const operation = operationSchema.parse(resolveAll(value, document));
  return { ...operation, method, path, summary: operation.summary ?? `${method} ${path}` };
}

/** Replaces references to parameters, headers and responses by what they refer to. References to schemas stay. */
function resolveAll(value: unknown, document: object): unknown {
  if (Array.isArray(value)) return value.map((item) => resolveAll(item, document));
  if (!isObject(value)) return value;
  const { $ref } = value;
  if (typeof $ref === 'string' && !$ref.startsWith(schemaPrefix)) return resolveAll(follow($ref, document), document);
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, resolveAll(field, document)]));
}

function follow($ref: string, document: object): unknown {
  return $ref
    .replace(/^#\//, '')
    .split('/')
    .reduce<unknown>((within, name) => (isObject(within) ? within[name] : undefined), document);
}

/** 4xx and 5xx. */
function isRefusal(status: string): boolean {
  return /^[45]/.test(status);
}

/** The errors of one status: codes, and the types of limits that were exceeded. Each has a section on the page about errors. */
type Refusals = { status: string; codes: string[]; limits: string[] };

/** Read from the descriptions: a paragraph for each code, then a list of the limits. */
export function refusalsOf({ responses }: Operation): Refusals[] {
  return Object.entries(responses)
    .filter(([status]) => isRefusal(status))
    .map(([status, { description }]) => ({
      status,
      codes: [...description.matchAll(/^`(\w+)`: /gm)].map(([, code = '']) => code),
      limits: [...description.matchAll(/^- `(\w+)`: /gm)].map(([, type = '']) => type),
    }));
}
