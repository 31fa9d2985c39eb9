import test from 'ava';
import { openStore } from '../../../../shared/process/open-store.ts';
import { clientOptionsFor, usualLimits } from '../../../../shared/store/mongo/mongo-calls.ts';

const url = (options: string) => `mongodb://user:secret@host/inference?${options}`;
const optionsFor = (options: string) => clientOptionsFor(url(options), usualLimits);

test('options that the service sets are accepted with its values, in any case, and others pass', (t) => {
  const plain = optionsFor('replicaSet=rs0&authSource=admin&retryWrites=true&appName=a&tls=true');
  t.is(plain.maxPoolSize, 20);
  t.deepEqual(optionsFor('W=Majority&readPreference=PRIMARY&journal=true&wTimeoutMS=3000&socketTimeoutMS=4000'), plain);
});

test('maxPoolSize of the URL is used, if it is at least 8 or has no limit', (t) => {
  for (const size of [0, 8, 50]) t.false('maxPoolSize' in optionsFor(`maxPoolSize=${size}`));
  t.throws(() => optionsFor('maxPoolSize=7'), { message: /maxPoolSize=7 cannot be used.* at least 8/ });
});

test('an option that the driver would ignore, or that weakens what the service promises, is refused by its name', (t) => {
  const refused = {
    ...{
      'w=1': 'w=1',
      'w=0': 'w=0',
      'readPreference=secondary': 'readPreference=secondary',
      'journal=false': 'journal=false',
    },
    ...{ 'j=false': 'j=false', 'wtimeout=1': 'wtimeout=1', 'socketTimeoutMS=60000': 'socketTimeoutMS=60000' },
    ...{
      'connecttimeoutms=1': 'connectTimeoutMS=1',
      'serverSelectionTimeoutMS=30000': 'serverSelectionTimeoutMS=30000',
    },
    'timeoutMS=1000': 'timeoutMS',
  };
  for (const [option, named] of Object.entries(refused))
    t.throws(() => optionsFor(`replicaSet=rs0&${option}`), { message: new RegExp(`its option ${named} `) }, option);
});

test('the start ends with the name of the option and without the password', async (t) => {
  const error = await t.throwsAsync(openStore(url('w=1'), { log: { warn() {} } }), { name: 'StartError' });
  t.regex(error?.message ?? '', /^DATABASE_URL: its option w=1 cannot be used/);
  t.false(error?.message.includes('secret'));
});
