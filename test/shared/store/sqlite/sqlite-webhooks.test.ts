import test from 'ava';
import { createSqliteHome } from '../sqlite-home.ts';
import { testWebhookRacesContract, testWebhooksContract } from '../webhooks-contract.ts';

testWebhooksContract({ test, createHome: createSqliteHome });
testWebhookRacesContract({ test: test.serial, createHome: createSqliteHome });
