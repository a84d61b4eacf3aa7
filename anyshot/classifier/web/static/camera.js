// Take photos with the camera; they go to a class or to the photos to classify.

import { $, h } from "./dom.js";
import { now, report } from "./state.js";
import { newBatch, upload } from "./upload.js";

const WIDTH = 1280; // pixels that the camera is asked for
let stream = null;
let asking = false; // the browser, which may ask the visitor
let batch = "";
let taken = 0;

export function cameraIcon() {
  const icon = $("camera-icon").content.cloneNode(true);
  return icon;
}

export async function takePhotos(target) {
  if (!navigator.mediaDevices) {
    return report("The browser gives the camera only to pages at localhost or with https.");
  }
  if (asking) return;
  asking = true;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { width: { ideal: WIDTH }, facingMode: "environment" } });
  } catch (error) {
    return report(error.name === "NotFoundError" ? "There is no camera." : "The browser did not allow the camera.");
  } finally {
    asking = false;
  }
  batch = newBatch();
  taken = 0;
  $("camera-count").textContent = "";
  const options = [...now().classes, { id: "pool", name: "photos to classify" }];
  $("camera-target").replaceChildren(...options.map(({ id, name }) => h("option", { value: id }, name)));
  $("camera-target").value = target;
  $("camera-video").srcObject = stream;
  $("camera").showModal();
  $("camera-take").focus();
}

$("camera-take").addEventListener("click", async () => {
  const video = $("camera-video");
  const canvas = h("canvas", { width: video.videoWidth, height: video.videoHeight });
  if (!canvas.width) return;
  canvas.getContext("2d").drawImage(video, 0, 0);
  taken += 1;
  $("camera-count").textContent = `${taken} taken`;
  const file = await new Promise((ready) => canvas.toBlob(ready, "image/jpeg", 0.92));
  file.name = `camera ${new Date().toISOString().slice(0, 19).replaceAll(":", "-")} ${taken}.jpg`;
  upload([file], $("camera-target").value, batch);
});

$("camera").addEventListener("close", () => {
  stream.getTracks().forEach((track) => track.stop());
  $("camera-video").srcObject = null;
});
$("pool-camera").addEventListener("click", () => takePhotos("pool"));
