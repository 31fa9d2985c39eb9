import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { z } from 'zod';
import { createOpenApiDocument } from '../../../ingress/api/openapi-document.ts';
import { routes } from '../../../ingress/routes.ts';

const media = z.record(z.string(), z.looseObject({ example: z.unknown().optional() }));
const responseSchema = z.object({ headers: z.record(z.string(), z.unknown()), content: media.default({}) });
const documentSchema = z.object({
  paths: z.record(z.string(), z.record(z.string(), z.object({ responses: z.record(z.string(), responseSchema) }))),
  components: z.object({ headers: z.record(z.string(), z.object({ required: z.boolean().default(false) })) }),
});

/** The document of the service, except for its addresses. */
export const openApiDocument: object = JSON.parse(
  JSON.stringify(
    createOpenApiDocument(routes, {
      baseUrl: 'https://api.example.com',
      docsUrl: 'https://docs.example.com',
      authUrl: 'https://id.example.com',
    }),
  ),
);

export type Content = z.infer<typeof media>;
export const { paths, components } = documentSchema.parse(openApiDocument);

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
// In OpenAPI a file is a string in binary format. Validation ignores definitions outside of schemas.
const formats = { date: /^\d{4}-\d\d-\d\d$/, 'date-time': time, binary: true } as const;
const ajv = new Ajv2020({ strict: false, allErrors: true, formats });
ajv.addSchema({ $id: 'openapi.json', ...openApiDocument });
const ajvOfHeaders = new Ajv2020({ strict: false, coerceTypes: true, formats });
ajvOfHeaders.addSchema({ $id: 'openapi.json', ...openApiDocument });
const compiled = new Map<string, ValidateFunction>();

const escaped = (name: string) => encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'));

/** The place of a schema in the document. */
export const pointer = (...names: readonly string[]) => `openapi.json#/${names.map(escaped).join('/')}`;
export const component = (name: string) => pointer('components', 'schemas', name);

/** Deviations of a value from the schema at this place. */
export function faultsBy(schema: string, value: unknown): string[] {
  const validate = validatorOf(ajv, schema);
  if (validate(value)) return [];
  return (validate.errors ?? []).map(({ instancePath, message, params }) =>
    [instancePath, message, JSON.stringify(params)].join(' '),
  );
}

export function isHeaderValue(name: string, value: string): boolean {
  return validatorOf(ajvOfHeaders, pointer('components', 'headers', name, 'schema'))(value);
}

/** Compiled at first use: most tests see only a few responses. */
function validatorOf(by: Ajv2020, $ref: string): ValidateFunction {
  const known = compiled.get($ref) ?? by.compile({ $ref });
  compiled.set($ref, known);
  return known;
}
