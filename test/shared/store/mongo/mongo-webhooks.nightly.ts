import test from 'ava';
import { openMongoTests } from '../../../support/mongodb/mongo-tests.ts';
import { testWebhookRacesContract, testWebhooksContract } from '../webhooks-contract.ts';

const { mongoTest, mongoTestAlone, createHome } = await openMongoTests(test);

testWebhooksContract({ test: mongoTest, createHome });
testWebhookRacesContract({ test: mongoTestAlone, createHome });
