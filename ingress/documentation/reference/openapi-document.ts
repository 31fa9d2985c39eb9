import { z } from 'zod';

const described = z.looseObject({ description: z.string().default('') });
const operationSchema = z.looseObject({
  tags: z.array(z.string()).default([]),
  security: z.array(z.record(z.string(), z.array(z.string()))).default([]),
  responses: z.record(z.string(), described).default({}),
});

/** The parts of an OpenAPI document (3.1) that the page uses. */
export const documentSchema = z.looseObject({
  info: described.extend({ version: z.string() }),
  servers: z.array(z.looseObject({ url: z.string() })).default([]),
  tags: z.array(described.extend({ name: z.string() })).default([]),
  paths: z.record(z.string(), z.looseObject({})),
  components: z.looseObject({ securitySchemes: z.record(z.string(), described).default({}) }).prefault({}),
});

export type OpenApiDocument = z.infer<typeof documentSchema>;
export type Operation = z.infer<typeof operationSchema> & { method: string; path: string };

const methods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];

/** In the order of the document. */
export function operationsOf({ paths }: OpenApiDocument): Operation[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => methods.includes(method))
      .map(([method, value]) => ({ ...operationSchema.parse(value), method, path })),
  );
}

/** 4xx and 5xx. */
export function isRefusal(status: string): boolean {
  return /^[45]/.test(status);
}
