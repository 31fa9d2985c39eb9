import test from 'ava';
import { boundsTexts, type Schema, typeText } from '../../../../ingress/documentation/reference/describe-schema.ts';

const schemas = {
  Item: { type: 'object', properties: { id: { type: 'string' } } },
  Loop: { anyOf: [{ type: 'array', items: { $ref: '#/components/schemas/Item' } }, { type: 'null' }] },
};
const nothing = { type: 'null' };

test('the type of a value is in words', (t) => {
  const types: [Schema, string][] = [
    [{ type: 'string' }, 'string'],
    [{ type: ['string', 'null'] }, 'string or null'],
    [{ anyOf: [{ type: 'integer', minimum: 1 }, nothing] }, 'integer or null'],
    [
      { anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }, nothing] },
      'string or array of strings or null',
    ],
    [{ type: 'array', items: { $ref: '#/components/schemas/Item' } }, 'array of objects'],
    [{ $ref: '#/components/schemas/Loop' }, 'array of objects or null'],
    [{ type: 'array', items: { type: 'array', items: { type: 'integer' } } }, 'array of arrays of integers'],
    [{ type: 'object', additionalProperties: { type: 'number' } }, 'object of numbers'],
    [{ type: 'string', format: 'binary' }, 'file'],
    [{ enum: ['on', 'off'] }, 'string'],
    [{}, 'any'],
    [nothing, 'null'],
  ];
  for (const [schema, text] of types) t.is(typeText(schema, schemas), text, JSON.stringify(schema));
});

test('bounds are in words, with the default', (t) => {
  const bounds: [Schema, string[]][] = [
    [{ type: 'string', minLength: 1, maxLength: 200 }, ['1 to 200 characters.']],
    [{ type: 'string', minLength: 1 }, ['At least 1 character.']],
    [{ type: 'integer', exclusiveMinimum: 0 }, ['At least 1.']],
    [{ type: 'number', exclusiveMinimum: 0 }, ['More than 0.']],
    [{ type: 'number', minimum: -2, maximum: 2 }, ['-2 to 2.']],
    [{ type: 'integer', maximum: 1_000_000 }, ['At most 1,000,000.']],
    [{ default: 20, type: 'integer', minimum: 1, maximum: 100 }, ['1 to 100.', 'Default: `20`.']],
    [{ default: false, type: 'boolean' }, ['Default: `false`.']],
    [{ type: 'string', const: 'batch' }, ['Always `"batch"`.']],
    [{ anyOf: [{ type: 'string', enum: ['a', 'b'] }, nothing] }, ['One of `a`, `b`.']],
    [
      { type: 'array', maxItems: 3, items: { type: 'string', pattern: '^x$' } },
      ['At most 3 items.', 'Each: pattern: `^x$`.'],
    ],
    [{ type: 'string', format: 'date' }, ['Format: `date`.']],
    [{ type: 'string' }, []],
  ];
  for (const [schema, texts] of bounds) t.deepEqual(boundsTexts(schema, schemas), texts, JSON.stringify(schema));
});
