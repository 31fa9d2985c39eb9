import { ApiFailure } from './api-failure.ts';

/** The messages of a refused form by the field that they are about. */
export type FieldErrors<Field extends string = string> = Partial<Record<Field, string>>;

/**
 * Takes a refusal apart (contract.md#b5-validation-errors): `name: expected …; allowed_ips[1]: expected …`. Messages about none of these
 * fields are left out; the failure itself has them.
 */
export function fieldErrorsOf<Field extends string>(error: unknown, fields: readonly Field[]): FieldErrors<Field> {
  const found: FieldErrors<Field> = {};
  if (!(error instanceof ApiFailure) || error.code !== 'VALIDATION_ERROR') return found;
  for (const part of error.message.split('; ')) {
    const [, path = '', index, message = ''] = /^([\w.]+)(?:\[(\d+)\])?: (.*)$/s.exec(part) ?? [];
    const field = fields.find((name) => name === path);
    if (field === undefined) continue;
    const said = index === undefined ? message : `entry ${Number(index) + 1}: ${message}`;
    found[field] = found[field] === undefined ? said : `${found[field]}; ${said}`;
  }
  return found;
}
