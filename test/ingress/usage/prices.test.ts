import test from 'ava';
import { createPricing, formatCost } from '../../../ingress/usage/report-rows.ts';
import { noDetailCounts } from '../../../shared/store/usage/usage-record.ts';

const counts = { ...noDetailCounts, requests: 1, promptTokens: 100, cachedTokens: 40, completionTokens: 10 };

test('the price of a day is the latest one that does not begin after it', (t) => {
  const pricing = createPricing({
    currency: 'USD',
    prices: {
      chat: [
        { from: '2026-01-01', prompt: '1', completion: '0' },
        { from: '2026-02-01', prompt: '2', completion: '0' },
        { from: '2026-02-02', prompt: '3', completion: '0' },
      ],
    },
  });
  const costOn = (day: string, model = 'chat') => {
    const cost = pricing?.costOf({ start: day, model, counts });
    return cost === undefined ? undefined : formatCost(cost);
  };
  t.is(costOn('2025-12-31'), undefined);
  t.is(costOn('2026-01-01'), '0.0001');
  t.is(costOn('2026-01-31'), '0.0001');
  t.is(costOn('2026-02-01'), '0.0002');
  t.is(costOn('2026-02-02'), '0.0003');
  t.is(costOn('2030-01-01'), '0.0003');
  t.is(costOn('2026-02-02', 'other'), undefined);
});

test('cached tokens are part of the prompt and have its price unless they have one of their own', (t) => {
  const cost = (cached?: string) => {
    const price = { from: '2026-01-01', prompt: '1', completion: '5', ...(cached !== undefined && { cached }) };
    return createPricing({ currency: 'USD', prices: { chat: [price] } })?.costOf({
      start: '2026-01-01',
      model: 'chat',
      counts,
    });
  };
  t.is(formatCost(cost() ?? -1n), '0.00015');
  t.is(formatCost(cost('0.5') ?? -1n), '0.00013');
  t.is(formatCost(cost('0') ?? -1n), '0.00011');
});

test('without prices there is no cost', (t) => {
  t.is(createPricing({ currency: 'USD', prices: undefined }), undefined);
});

test('a cost is exact beyond the precision of numbers, and written without an exponent and without zeros at its end', (t) => {
  const cost = (promptTokens: number, prompt: string) =>
    createPricing({ currency: 'USD', prices: { chat: [{ from: '2026-01-01', prompt, completion: '0' }] } })?.costOf({
      ...{ start: '2026-01-01', model: 'chat', counts: { ...noDetailCounts, requests: 1, promptTokens } },
    }) ?? -1n;
  t.is(formatCost(cost(1, '0.000000001')), '0.000000000000001');
  t.is(formatCost(cost(Number.MAX_SAFE_INTEGER, '999999999.999999999')), '9007199254740990990.992800745259009');
  t.is(formatCost(cost(3, '0.1')), '0.0000003');
  t.is(formatCost(cost(1_000_000, '12')), '12');
  t.is(formatCost(cost(1_000_000, '120.50')), '120.5');
  t.is(formatCost(cost(5, '0')), '0');
  t.is(formatCost(0n), '0');
});
