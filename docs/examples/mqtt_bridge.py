"""Copy the MQTT messages of plant/DEVICE/MEASURE to Kafka.

    python mqtt_bridge.py MQTT_HOST MQTT_PORT KAFKA TOPIC

A message is acknowledged when Kafka has it. So a bridge that ends loses none, and the MQTT broker
sends again what was not acknowledged, as far as its queue reaches. Let systemd or Kubernetes
restart the bridge.
"""

import sys

from confluent_kafka import Producer
from paho.mqtt import client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions


def bridge(host, port, brokers, topic):
    """Run until the connection to the MQTT broker ends."""
    producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True})

    def on_connect(client, *_):
        # Retained messages come once, when the subscription is new.
        client.subscribe("plant/+/+", options=SubscribeOptions(qos=1, retainHandling=1))

    def on_message(client, _, message):
        def on_delivery(error, _):
            if error is None:
                client.ack(message.mid, message.qos)
            else:
                client.disconnect()

        _, device, measure = message.topic.split("/")
        headers = {"device": device, "measure": measure}
        producer.produce(topic, message.payload, device, headers=headers, on_delivery=on_delivery)

    version = mqtt.CallbackAPIVersion.VERSION2
    client = mqtt.Client(version, "inorder-bridge", protocol=mqtt.MQTTv5, manual_ack=True)
    client.on_connect, client.on_message = on_connect, on_message
    session = Properties(PacketTypes.CONNECT)
    session.SessionExpiryInterval = 86_400
    client.connect(host, port, clean_start=False, properties=session)
    while client.loop(0.1) == mqtt.MQTT_ERR_SUCCESS:
        producer.poll(0)
    producer.flush(10)


if __name__ == "__main__":
    bridge(sys.argv[1], int(sys.argv[2]), *sys.argv[3:5])
    sys.exit("the MQTT broker is gone")
