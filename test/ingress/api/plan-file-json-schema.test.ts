import { Ajv } from 'ajv';
import test from 'ava';
import { parse } from 'yaml';
import { planFileJsonSchema } from '../../../ingress/api/present-plan-file.ts';
import { planText } from '../../support/plan-text.ts';

const validate = new Ajv({ strict: false, allErrors: true, validateFormats: false }).compile(planFileJsonSchema());
const pathsOf = (text: string) =>
  validate(parse(text)) ? [] : (validate.errors ?? []).map(({ instancePath }) => instancePath);

test('a valid plan file has the shape of the schema', (t) => {
  t.deepEqual(pathsOf(planText()), []);
});

test('a price is a number or a text', (t) => {
  const withPrice = (prompt: unknown) =>
    pathsOf(
      planText((plan) => Object.assign(plan, { prices: { m: [{ from: '2026-01-01', prompt, completion: 0.6 }] } })),
    );
  t.deepEqual(withPrice(0.15), []);
  t.deepEqual(withPrice('0.15'), []);
  for (const wrong of [-1, '1e3', true]) t.deepEqual(withPrice(wrong), ['/prices/m/0/prompt'], String(wrong));
});

test('a wrong value, a missing key and an unknown one do not', (t) => {
  const wrong = planText(({ plans, models, backends }) => {
    Object.assign(plans.free, { requests_per_minute: 0 });
    Reflect.deleteProperty(models['small-chat'], 'pool');
    Object.assign(backends.cloud, { key: 'sk' });
  });
  t.deepEqual(pathsOf(wrong).toSorted(), ['/backends/cloud', '/models/small-chat', '/plans/free/requests_per_minute']);
});

test('every key says what it means', (t) => {
  const without: string[] = [];
  const look = (value: unknown, path: string): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [key, part] of Object.entries(value)) {
      const properties = key === 'properties' && typeof part === 'object' ? Object.entries(part as object) : [];
      for (const [name, property] of properties)
        if (!('description' in (property as object))) without.push(`${path}.${name}`);
      look(part, `${path}.${key}`);
    }
  };
  look(planFileJsonSchema(), '');
  t.deepEqual(without, []);
});
