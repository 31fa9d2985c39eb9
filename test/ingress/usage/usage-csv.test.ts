import test from 'ava';
import { noSums } from '../../../ingress/usage/report-rows.ts';
import { csvHeader, csvLine } from '../../../ingress/usage/usage-report.ts';
import { noDetailCounts } from '../../../shared/store/usage/usage-record.ts';
import { readCsv } from '../../support/report-side.ts';

const row = (values: string[]) => ({ values, ...noSums(), counts: { ...noDetailCounts, requests: 2 } });
const columns = { unit: 'day', groups: ['account', 'model'], pricing: undefined } as const;

test('a line ends with CRLF, and only values that need it are quoted (RFC 4180)', (t) => {
  t.is(
    csvHeader(columns),
    'account,model,requests,failed,cancelled,promptTokens,cachedTokens,completionTokens,chargedTokens,overageTokens\r\n',
  );
  t.is(csvLine(row(['user:ann', 'meta/llama@x']), columns), 'user:ann,meta/llama@x,2,0,0,0,0,0,0,0\r\n');
  t.is(csvLine(row(['a,b', 'say "x"']), columns), '"a,b","say ""x""",2,0,0,0,0,0,0,0\r\n');
});

test('any text is read back unchanged by a CSV library', (t) => {
  const texts = ['', 'a,b', '"', '""', 'x\r\ny', 'x\ny', 'x\ry', ' x ', '名前 🗝️', ',', '\u2028', "'", 'a=b', '1e3'];
  for (const text of texts) {
    const [found] = readCsv(csvHeader(columns) + csvLine(row([text, 'm']), columns));
    t.is(found?.account, text);
    t.is(found?.model, 'm');
  }
});

test('a text that a spreadsheet could take for a formula gets an apostrophe in front', (t) => {
  for (const text of ['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '\r=1']) {
    const [found] = readCsv(csvHeader(columns) + csvLine(row(['user:ann', text]), columns));
    t.is(found?.model, `'${text}`);
  }
});
