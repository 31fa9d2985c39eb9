import { z } from 'zod';
import { ApiError } from './errors.ts';
import { filesOf, type Key, keyFilesSchema, keyLimitsSchema } from './store/accounts/key.ts';

export const keyScopeSchema = z.object({
  expiresAt: z.int().optional(),
  endsAt: z.int().optional(),
  endpoints: z.array(z.string()).optional(),
  models: z.array(z.string()).optional(),
  allowedIps: z.array(z.string()).optional(),
  limits: keyLimitsSchema.optional(),
  files: keyFilesSchema.optional(),
  replaced: z.array(z.string()).optional(),
});

/** What a key may do. Times are milliseconds of Redis's clock. `replaced` is omitted if the key may use all files. */
export type KeyScope = z.infer<typeof keyScopeSchema>;

export function scopeOf({ expiresAt, endsAt, ...key }: Key): KeyScope {
  const { endpoints, models, allowedIps, limits, files, replaced } = key;
  return {
    ...(expiresAt && { expiresAt: expiresAt.getTime() }),
    ...(endsAt && { endsAt: endsAt.getTime() }),
    ...(endpoints && { endpoints }),
    ...(models && { models }),
    ...(allowedIps && { allowedIps }),
    ...(limits && { limits }),
    ...(files && { files }),
    ...(replaced && filesOf(key) !== 'all' && { replaced }),
  };
}

/** Whether the key may use this model, by its own name or by the alias that the client sent. */
export function mayUseModel(scope: Pick<Narrowing, 'models'> | undefined, ...names: (string | undefined)[]): boolean {
  return scope?.models === undefined || names.some((name) => name !== undefined && scope.models?.includes(name));
}

type Narrowing = { [Name in 'endpoints' | 'models']?: KeyScope[Name] | undefined };
type Asked = { endpoint: string; model?: string; requestedModel?: string | undefined };

/**
 * Returns `FORBIDDEN` for a request that the key may not make, which names what is outside of it. Without `model` only the endpoint is
 * checked.
 */
export function refuseOutsideKey(
  scope: Narrowing | undefined,
  { endpoint, model, requestedModel }: Asked,
): ApiError | undefined {
  if (scope?.endpoints !== undefined && !scope.endpoints.includes(endpoint)) {
    return new ApiError('FORBIDDEN', `This API key may not use the endpoint ${endpoint}.`);
  }
  if (model === undefined || mayUseModel(scope, model, requestedModel)) return undefined;
  return new ApiError('FORBIDDEN', `This API key may not use the model "${requestedModel ?? model}".`);
}
