// The page of a daemon that asks for a token, with one that may read alone.
import { accessible, base, browser, claim, env, equal, go, open, picture } from './drive.mjs';

const page = await open();

async function signIn(token) {
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Go on' }).click();
}

await claim('without a token nothing is shown, and one is asked for', async () => {
  await go(page, '#/resources', 'A token is needed');
  equal(await page.evaluate(() => document.activeElement.id), 'token', 'the focus');
  await picture(page, 'token-light');
  await accessible(page, 'violations');
});

await claim('a wrong token is said to be wrong', async () => {
  await signIn('wrong');
  await page.getByRole('alert').getByText('unauthorized').waitFor();
});

await claim('a good token shows what was asked for, and is stored nowhere', async () => {
  await signIn(env.READER);
  await page.getByRole('heading', { level: 1, name: 'Resources' }).waitFor();
  await page.locator('tbody th', { hasText: 'house/attic' }).waitFor();
  await page.locator('#live').getByText('Live', { exact: true }).waitFor();
  const kept = await page.evaluate(() => JSON.stringify([localStorage, sessionStorage, document.cookie]));
  equal(kept.includes(env.READER), false, 'the token is kept');
  equal((await page.context().cookies()).length, 0, 'cookies');
});

await claim('what the token may not do says which scope is missing', async () => {
  await page.getByRole('link', { name: 'house/attic/light' }).click();
  const forget = page.getByRole('button', { name: 'Forget' });
  await forget.waitFor();
  equal(await forget.getAttribute('aria-disabled'), 'true', 'forget');
  await page.getByRole('button', { name: 'Retry' }).click({ force: true });
  await page.locator('#said').getByText('Denied to you: it needs the scope write at web.').waitFor();
  equal(await page.getByRole('dialog').count(), 0, 'dialogs');
});

await claim('the token is gone with the page', async () => {
  await page.goto(base);
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'A token is needed' }).waitFor();
});

await claim('nothing went wrong in the browser', async () => equal(page.troubles, [], 'troubles'));
await browser.close();
