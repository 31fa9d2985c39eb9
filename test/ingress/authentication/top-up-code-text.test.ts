import test from 'ava';
import { hashTopUpCode, makeTopUpCode, readTopUpCode, topUpCodeForm } from '../../../ingress/routes/top-up-codes.ts';

const form = /^TOPUP(-[0-9A-HJKMNP-TV-Z]{5}){6}$/;

test('a code has the documented form, and 30 symbols of which each occurs', (t) => {
  const codes = Array.from({ length: 2_000 }, () => makeTopUpCode());
  for (const code of codes) t.regex(code, form);
  t.is(new Set(codes).size, codes.length);
  const symbols = codes.map((code) => code.slice('TOPUP'.length).replaceAll('-', '')).join('');
  const counts = Map.groupBy(symbols, (symbol) => symbol);
  t.is(counts.size, 32);
  const expected = symbols.length / 32;
  for (const [symbol, found] of counts) t.true(Math.abs(found.length - expected) < 0.2 * expected, symbol);
  t.is(codes[0]?.length, topUpCodeForm.length);
});

test('a code can be typed in any case, with other separators, and with letters for the digits that they look like', (t) => {
  const code = 'TOPUP-01234-56789-ABCDE-FGHJK-MNPQR-STVWX';
  const typed = [
    code,
    code.toLowerCase(),
    code.replaceAll('-', ''),
    ` ${code.replaceAll('-', ' – ')}\n`,
    code.replace('0', 'O').replace('1', 'I'),
    code.toLowerCase().replace('0', 'o').replace('1', 'l'),
  ];
  for (const text of typed) t.is(readTopUpCode(text), code, text);
});

test('any other text is no code', (t) => {
  const code = makeTopUpCode();
  const others = [
    '',
    'TOPUP',
    code.slice(0, -1),
    `${code}0`,
    code.slice(1),
    code.replace('TOPUP', 'T0PUP'),
    `x${code}`,
  ];
  for (const text of others) t.is(readTopUpCode(text), undefined, text);
  for (const symbol of ['U', '!', 'é', 'ſ', '\u0000', 'İ'])
    t.is(readTopUpCode(code.slice(0, -1) + symbol), undefined, symbol);
});

test('the hash is that of the code as it was made', (t) => {
  const hash = hashTopUpCode('TOPUP-01234-56789-ABCDE-FGHJK-MNPQR-STVWX');
  t.is(hash, '13d43a5203219f975b36ec2581494d52203c036c3d8cd22d2ceb4da433351ca7', 'codes that were sold stay valid');
});
