import test from 'ava';
import { z } from 'zod';
import { nameOf } from '../../../ingress/api/route.ts';
import { parseBody, parseFields } from '../../../ingress/listener/json-body.ts';
import { keyChangeBody } from '../../../ingress/routes/key-fields.ts';
import { isObject } from '../../../shared/json/json-values.ts';
import { documentedRoutes } from '../../support/api-routes.ts';

type Fields = Readonly<Record<string, z.ZodType>>;

/** The bodies of routes other than those of endpoints, each with a valid example. */
const bodies = Object.entries(documentedRoutes).flatMap(([route, { body, endpoint }]) =>
  endpoint === undefined && body !== undefined && body.form !== true && isObject(body.example)
    ? [{ route, schema: body.schema, example: body.example }]
    : [],
);

test('null is absent in every optional field of every body, unless it is a value there', (t) => {
  t.true(bodies.length > 15, `${bodies.length}`);
  let fields = 0;
  for (const { route, schema, example } of bodies) {
    for (const [name, field] of Object.entries<z.ZodType>((schema as z.ZodObject).shape)) {
      if (!field.safeParse(undefined).success) {
        t.throws(() => parseFields(schema, { ...example, [name]: null }), undefined, `${route}: ${name}`);
        continue;
      }
      fields++;
      const absent = Object.fromEntries(Object.entries(example).filter(([each]) => each !== name));
      const removes = field.safeParse(null).success;
      t.deepEqual(
        outcomeOf(schema, { ...absent, [name]: null }),
        outcomeOf(schema, absent, removes ? { [name]: null } : {}),
      );
      t.is(removes, nullIsValue(schema, name), `${route}: ${name}`);
    }
  }
  t.true(fields > 20, `${fields}`);
});

/** What is parsed, with the fields that null sets besides, or the error: some bodies need one of several fields. */
function outcomeOf(schema: z.ZodType, body: object, besides: object = {}): unknown {
  try {
    return { ...(parseFields(schema, body) as object), ...besides };
  } catch (error) {
    return (error as Error).message; // of a body that is refused
  }
}

/**
 * Where null is a value: in the settings of a key, the bound of overage, the metadata and times of a batch, and the end and note of codes.
 */
function nullIsValue(schema: z.ZodType, name: string): boolean {
  const body = nameOf(schema);
  if (body === 'NewTopUpCodes') return name === 'expires_at' || name === 'note';
  if (body === 'NewBatch') return name === 'metadata' || name === 'output_expires_after';
  if (body === 'Overage') return name === 'tokens_max';
  return body === 'NewKey' || (body === 'KeyChange' && name !== 'name');
}

test('null in a change of a key removes the setting, and leaves the name', (t) => {
  const body = { name: null, models: null, limits: { requests_per_minute: 5, tokens_per_minute: null } };
  const { models, limits, ...others } = parseBody(keyChangeBody, {
    value: body,
    text: JSON.stringify(body),
  });
  t.is(models, null);
  t.is(limits?.requests_per_minute, 5);
  t.false('name' in others);
});

test('null is refused where a value is required or a field is not known, and inside maps', (t) => {
  const fields: Fields = { a: z.string(), map: z.record(z.string(), z.string()).optional() };
  const schema = z.strictObject(fields);
  for (const value of [{ a: null }, { a: 'x', b: null }, { a: 'x', map: { y: null } }, null]) {
    t.throws(() => parseFields(schema, value), undefined, JSON.stringify(value));
  }
  t.deepEqual(parseFields(schema, { a: 'x', map: null }), { a: 'x' });
});
